"""Read changelogs. It lies here as a package would on an index: present, and not yet installed."""


def latest(changelog: str) -> str:
    """Return the newest section of a changelog, with its heading."""
    newest = changelog.split("\n## ")[1]
    return f"## {newest.strip()}\n"
