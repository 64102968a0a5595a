"""Tell a secret from what only stands where a secret could stand: placeholders, references, plain words."""

import base64
import binascii
import re

MARK = re.compile(r"\[REDACTED:[a-z0-9_]{1,40}:[0-9a-f]{4}\]")
_PLACEHOLDER = re.compile(
    r"""(?ix)
      [*.x#?_\-•]+                                       # ***, xxxx, ...
    | <.*> | \[.*\] | \{.*\} | %\w+%                    # <token>, [hidden], {{ token }}, %TOKEN%
    | \$\{.*\} | \$\(.*\) | (?-i:\$[A-Z_][A-Z0-9_]*|\$[a-z_]+)
    | (?:env|vault|file|ref|secret|op|ssm)://?.* | env:\w+ | vault:[\w/.\#-]+
      # your-token-here, CHANGE_ME, example password
    | (?:(?:your|my|the|some|this|new|old|api|app|auth|access|client|db|admin|user|name|key|token|password|passwd|secret
        |value|string|here|change|replace|insert|enter|me|with|example|sample|placeholder|redacted|dummy|fake|test|todo)
        [_.\ -]?+)++
      # what a message says about a secret
    | (?:true|false|null|none|nil|undefined|yes|no|on|off|n/a|unset|empty|optional|required|missing|invalid|incorrect
       |expired|denied|wrong|rejected|inherit|default|disabled|enabled|hidden|str|int|bytes|text|bool|any|must|should
       |cannot|mismatch|failed|failure|unknown|provided|expected|received|authentication|not|and|for|has|was|are|with
       |from)[.!?:]?
    | \d{1,3}
    """
)
# settings.api_key, os.environ, self.token, user_password: names in code, not values.
_REFERENCE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+|[A-Za-z]+(?:_[A-Za-z]+)+|--?[A-Za-z][A-Za-z-]*|/[\w./-]*"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")


def is_placeholder(value: str) -> bool:
    """Say whether the text stands for a secret without being one."""
    plain = value.strip()
    return not plain or bool(_PLACEHOLDER.fullmatch(plain)) or not MARK.sub("", plain).strip(" ;,=")


def is_value(value: str) -> bool:
    """Say whether text behind a word such as `password` is a value: no placeholder and no name in code."""
    return not is_placeholder(value) and not (_REFERENCE.fullmatch(value) and not _has_digit(value))


def is_token_shaped(value: str) -> bool:
    """Say whether text is long and mixed enough for a generated secret: 8 characters with a digit and a letter."""
    return len(value) >= 8 and _has_digit(value) and any(map(str.isalpha, value)) and is_value(value)


def decodes_to_credentials(value: str) -> bool:
    """Say whether base64 text holds `user:password`, as HTTP basic authentication has it."""
    if not _BASE64.fullmatch(value):
        return False
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in decoded and decoded.isascii()


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))
