"""What an executor will not do."""


class NotAllowed(Exception):
    """A request that this executor refuses for good; the text is a sentence without content or path."""
