"""What a recipe names by reference: users extend gymlab without editing it."""

from __future__ import annotations

from gymlab.core.errors import UserError
from gymlab.envs.references import is_reference, load_reference
from gymlab.envs.settings import Part
from gymlab.recipes.schema import Recipe
from gymlab.training.events import Feature


def references(recipe: Recipe) -> list[str]:
    """Every `module:Name` and `./file.py:Name` of a recipe."""
    named = [
        recipe.env.id,
        recipe.algorithm.name,
        recipe.policy.encoder or "",
        *(part.name for part in recipe.env.wrappers),
        *(part.name for part in recipe.features),
    ]
    return [text for text in named if is_reference(text)]


def make_feature(part: Part) -> Feature:
    """A feature by reference: a class derived from `Feature`, called with the part's arguments."""
    found = load_reference(part.name)
    if not (isinstance(found, type) and issubclass(found, Feature)):
        raise UserError(f"features: '{part.name}' is not a class derived from gymlab.training.events.Feature")
    try:
        return found(**part.args)
    except TypeError as error:
        raise UserError(
            f"features: '{part.name}' cannot be made with {part.args or 'no arguments'}: {error}"
        ) from error
