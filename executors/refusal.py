"""What an executor will not do."""


class NotAllowedError(Exception):
    """A request that this executor refuses for good; the text is a sentence without content or path."""
