"""Small trained policies that come with the package."""
