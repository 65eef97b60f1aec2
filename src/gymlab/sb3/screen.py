"""A window for pictures, where the render extra is installed."""

from __future__ import annotations

import numpy as np

from gymlab.core.errors import UserError


def show(picture: np.ndarray) -> None:
    """Draw an RGB picture into the window, opening it when there is none of that size."""
    try:
        import pygame
    except ImportError as error:
        raise UserError("drawing on the screen needs an extra package: pip install 'gymlab[render]'") from error
    size = (picture.shape[1], picture.shape[0])
    if not pygame.display.get_init():
        pygame.display.init()
    window = pygame.display.get_surface()
    if window is None or window.get_size() != size:
        window = pygame.display.set_mode(size)
    pygame.surfarray.blit_array(window, picture.swapaxes(0, 1))
    pygame.event.pump()
    pygame.display.flip()
