"""A terminal emulator for tests."""

import io
import re


class FakeTerminal(io.StringIO):
    """Interprets the escape codes that a `Screen` writes and keeps the visible text."""

    encoding = "utf-8"

    def __init__(self, columns, rows):
        super().__init__()
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[] for _ in range(rows)]
        self.x, self.y = 0, rows - 1
        self.scrolled = []

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("not a file")

    def write(self, text):
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[^\x1b]", text):
            if part.startswith("\x1b"):
                self._escape(part[-1], part[2:-1])
            elif part == "\r":
                self.x = 0
            elif part == "\n":
                self._down()
            else:
                self._put(part)
        return len(text)

    def _escape(self, kind, number):
        row = self.cells[self.y]
        if kind == "A":
            assert self.y >= int(number), "the frame is above the first row"
            self.y -= int(number)
        elif kind == "K":
            del row[self.x :]
        elif kind == "H":
            self.x = self.y = 0
        elif kind == "J":
            del row[self.x :]
            for below in self.cells[0 if number == "2" else self.y + 1 :]:
                below.clear()

    def _put(self, letter):
        if self.x == self.columns:
            self.x = 0
            self._down()
        row = self.cells[self.y]
        row.extend(" " * (self.x + 1 - len(row)))
        row[self.x] = letter
        self.x += 1

    def _down(self):
        if self.y == self.rows - 1:
            self.scrolled.append("".join(self.cells.pop(0)))
            self.cells.append([])
        else:
            self.y += 1

    def visible(self):
        return ["".join(row).rstrip() for row in self.cells]
