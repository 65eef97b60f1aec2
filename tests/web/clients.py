"""Browsers without pictures: clients that hold a page's websocket open and take whatever is pushed."""

import ast
import asyncio
import json
import re
import sys
import uuid


async def hold(base, path, seconds):
    """One client; gives the number of bytes it was sent."""
    import httpx
    import socketio

    async with httpx.AsyncClient(timeout=60) as client:
        page = (await client.get(base + path)).text
    query = ast.literal_eval(re.search(r"query: ({.*?}),\n", page)[1])
    query |= {"document_id": str(uuid.uuid4()), "tab_id": str(uuid.uuid4()), "implicit_handshake": "true"}
    address = f"{base}/_nicegui_ws/socket.io?{'&'.join(f'{key}={value}' for key, value in query.items())}"
    wire, taken = socketio.AsyncClient(reconnection=False), []
    wire.on("*", lambda event, data=None: taken.append(len(json.dumps(data))))
    await wire.connect(
        address, headers={"Origin": base}, transports=["websocket"], socketio_path="/_nicegui_ws/socket.io"
    )
    await asyncio.sleep(seconds)
    await wire.disconnect()
    return sum(taken)


async def main(base, path, count, seconds):
    sent = await asyncio.gather(*(hold(base, path, seconds) for _ in range(count)))
    print(json.dumps(sent))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
