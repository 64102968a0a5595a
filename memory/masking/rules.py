"""What secrets look like in text.

Every rule is anchored: by the letters a vendor begins its tokens with, or by the words that stand before a secret.
Nothing is called a secret for its randomness alone, so hashes, ids and lock files stay.

Every pattern takes time linear in the text. A repetition has an upper bound, is possessive, or can only begin where
the character before is none of its own, so that no stretch of text is scanned once for each of its characters.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from memory.masking.shapes import decodes_to_credentials, is_placeholder, is_token_shaped, is_value

# Before a token: nothing that could belong to it.
_EDGE = r"(?<![A-Za-z0-9_-])"


def _qualified(word: str, qualifiers: str) -> str:
    """Return the pattern of a word right behind one of some others; it looks back, so that a search begins with it."""
    looks = "|".join(f"(?<={before}{word})|(?<={before}[_-]{word})" for before in qualifiers.split())
    return f"{word}(?:{looks})"


# Words after which a secret follows, and words that also occur in prose and code: behind those only what is shaped
# like a secret counts.
_STRONG = "|".join(
    (
        r"pass(?:word|wd|phrase|code)|pwd|secret[_-]?id",
        _qualified("secret", "client app consumer shared webhook signing session"),
        _qualified(
            "key",
            "api access secret private account signing encryption master auth service license ssh deploy",
        ),
        _qualified("token", "access refresh auth api bearer session security bot registry"),
        _qualified("string", "connection"),
    )
)
_WEAK = r"token|secret|credentials?|session[_-]?id"
# What may follow the word inside a name: DB_PASSWORD_2, token_prod. Not token_count, password_policy.
_NAME_END = r"(?:[_-]?(?:\d{1,3}|value|prod|production|dev|staging|test|live|old|new|current|base64|b64|hex))?"
_QUOTE = r"(?:\\{0,4}[\"'])"
# Between a name and its value: an assignment, the end of a tag, the comma of a list of quoted arguments.
_ASSIGNED = rf"(?:{_QUOTE}?[ \t]{{0,8}}(?::=|=>|=|:|%3D|>)|{_QUOTE}[ \t]{{0,8}},)[ \t]{{0,8}}"
# Behind a colon the value may begin on the next line (folded YAML).
_FOLDED = r"(?:[>|][+-]?[ \t]*\r?\n[ \t]{1,16})?"
_QUOTED = r"(?:\\{0,4}\"(?P<double>[^\"\\\r\n]{1,512})\\{0,4}\"|\\{0,4}'(?P<single>[^'\\\r\n]{1,512})\\{0,4}')"
_BARE = r"(?P<bare>[^\s\"'`,;&<>(){}\[\]|\\]{4,512}+)(?![(\[{])"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which secrets are written."""

    kind: str
    # Its named groups, or else the whole match, are the secret.
    pattern: re.Pattern[str]
    # Lower-case pieces, of which every text that can match has one; they spare most texts the pattern.
    needles: tuple[str, ...]
    # A second look at what the pattern found.
    confirm: Callable[[str], bool] | None = None


def _token(kind: str, pattern: str, *needles: str) -> Rule:
    return Rule(kind, re.compile(_EDGE + pattern), needles)


def _named(kind: str, pattern: str, *needles: str, confirm: Callable[[str], bool] = is_value) -> Rule:
    return Rule(kind, re.compile(pattern, re.IGNORECASE), needles, confirm)


def _is_real(value: str) -> bool:
    return not is_placeholder(value)


_TOKENS = (
    _token("aws_key_id", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])", "akia", "asia", "abia", "acca"),
    _token("github", r"(?:gh[pousr]_[A-Za-z0-9]{36,255}+|github_pat_[A-Za-z0-9_]{22,255}+)", "gh", "github_pat_"),
    _token("gitlab", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt)-[A-Za-z0-9_.-]{20,300}+", "gl"),
    _token("slack", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,300}+", "xox", "xapp-"),
    _token("stripe", r"(?:[rs]k_(?:live|test)_|whsec_)[A-Za-z0-9+/=]{16,300}+", "k_live_", "k_test_", "whsec_"),
    _token("model_api", r"sk-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{20,300}+", "sk-"),
    _token(
        "google",
        r"(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,1024}+|GOCSPX-[A-Za-z0-9_-]{20,64}+)",
        "aiza",
        "ya29.",
        "gocspx-",
    ),
    _token("jwt", r"eyJ[A-Za-z0-9_-]{8,8192}+(?:\.[A-Za-z0-9_-]{0,8192}+){2,4}+", "eyj"),
    _token("vault", r"hv[sbr]\.[A-Za-z0-9_-]{20,512}+", "hvs.", "hvb.", "hvr."),
    _token("sendgrid", r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}+", "sg."),
    _token("telegram", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,40}+", ":aa"),
    _token("mailgun", r"key-[0-9a-f]{32}(?![A-Za-z0-9])", "key-"),
    _token("twilio", r"SK[0-9a-f]{32}(?![A-Za-z0-9])", "sk"),
    _token("age", r"AGE-SECRET-KEY-1[A-Z0-9]{50,70}+", "age-secret-key-"),
    _token(
        "vendor_token",
        r"(?:npm_|pypi-|rubygems_|dop_v1_|doo_v1_|dckr_pat_|dckr_oat_|hf_|lin_api_|ntn_|glc_|glsa_|sntrys_|sntryu_"
        r"|shp(?:at|ca|pa|ss)_|atlasv1\.|NRAK-|dapi|pul-|tskey-[a-z]{2,12}-|figd_|sq0[a-z]{3}-|EAAA|phx_|rnd_|nvapi-"
        r"|gsk_|xai-|r8_|pplx-|fly_|sbp_|ops_|CFPAT-|PMAK-|key_live_|rk-|ATATT3|cio[a-z]{0,4}_|secret_)"
        r"(?=[A-Za-z_.-]{0,200}[0-9])[A-Za-z0-9_.-]{24,512}+",
        "npm_",
        "pypi-",
        "rubygems_",
        "do",
        "dckr_",
        "hf_",
        "lin_api_",
        "ntn_",
        "gl",
        "sntry",
        "shp",
        "atlasv1.",
        "nrak-",
        "dapi",
        "pul-",
        "tskey-",
        "figd_",
        "sq0",
        "eaaa",
        "phx_",
        "rnd_",
        "nvapi-",
        "gsk_",
        "xai-",
        "r8_",
        "pplx-",
        "fly_",
        "sbp_",
        "ops_",
        "cfpat-",
        "pmak-",
        "key_live_",
        "rk-",
        "atatt3",
        "cio",
        "secret_",
    ),
)
_BLOCKS = (
    Rule(
        "private_key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?P<body>(?:(?!-----)[\s\S]){1,16384}+(?=-----END )"
            # Without its end line, as in a cut excerpt: what looks like lines of base64.
            r"|(?:(?:\s|\\+[nr])*+[A-Za-z0-9+/=]{20,}+)++(?:(?:\s|\\+[nr])*+[A-Za-z0-9+/=]{1,19}\Z)?)"
        ),
        ("private key",),
        _is_real,
    ),
    Rule(
        "webhook",
        re.compile(
            r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/[0-9]{1,24}/"
            r"|webhook\.office\.com/webhookb2/)(?P<path>[A-Za-z0-9_/@.-]{16,400}+)"
        ),
        ("hooks.slack.com", "/webhook"),
        _is_real,
    ),
)
_PLACES = (
    # The password may hold "@": the last one of the authority ends it.
    _named("url_password", r"://[^\s/:@\"'<>\\]{0,128}+:(?P<secret>[^\s/\"'<>\\]{1,512})@", "://", confirm=_is_real),
    _named(
        "authorization",
        rf"authorization{_ASSIGNED}{_QUOTE}?(?:(?:bearer|basic|token|digest|apikey|bot|negotiate)[ \t]+)?"
        r"(?P<secret>[A-Za-z0-9._~+/=:-]{8,8192}+)",
        "authorization",
        confirm=is_token_shaped,
    ),
    _named(
        "bearer",
        rf"{_EDGE}bearer[ \t]{{1,4}}(?P<secret>[A-Za-z0-9._~+/=-]{{16,8192}}+)",
        "bearer",
        confirm=is_token_shaped,
    ),
    _named(
        "basic",
        rf"{_EDGE}basic[ \t]{{1,4}}(?P<secret>[A-Za-z0-9+/=_-]{{8,1024}}+)",
        "basic",
        confirm=decodes_to_credentials,
    ),
    _named(
        "cookie",
        rf"{_EDGE}(?:set-)?cookie{_QUOTE}?[ \t]{{0,4}}:[ \t]{{0,4}}{_QUOTE}?(?P<secret>[^\r\n\"'\\]{{1,8192}}+)",
        "cookie:",
        'cookie"',
        "cookie'",
        confirm=lambda value: "=" in value and _is_real(value),
    ),
    _named(
        "signature",
        r"[?&](?:sig|signature|x-(?:amz|goog)-(?:signature|security-token|credential))=(?P<secret>[^\s&\"'<>\\]{16,4096}+)",
        "sig",
        "x-amz-",
        "x-goog-",
        confirm=_is_real,
    ),
    _named(
        "user_password",
        r"(?<!\S)(?:-u|--user)[ =]{1,4}[\"']?[^\s:\"']{1,64}+:(?P<secret>[^\s\"']{4,256}+)",
        "-u",
        confirm=is_value,
    ),
    _named(
        "identified_by",
        r"identified[ \t]{1,4}by[ \t]{1,4}'(?P<secret>[^'\r\n]{1,256})'",
        "identified",
        confirm=_is_real,
    ),
)
_NAMED = (
    _named(
        "password",
        rf"(?:{_STRONG}){_NAME_END}{_ASSIGNED}{_FOLDED}(?:{_QUOTED}|{_BARE})",
        "pass",
        "pwd",
        "secret",
        "key",
        "token",
        "string",
    ),
    _named(
        "password",
        rf"--?[a-z-]{{0,32}}(?:pass(?:word|wd|phrase)?|secret|token|api-?key)[ \t]{{1,4}}(?:{_QUOTED}|{_BARE})",
        "-pass",
        "-secret",
        "-token",
        "-key",
        "-apikey",
        confirm=is_value,
    ),
    _named(
        "password",
        r"(?:password|passphrase)[ \t]{1,4}(?:is|was|of)[ \t]{1,4}[\"']?(?P<secret>[^\s\"',;]{6,128}+)",
        "pass",
        confirm=is_token_shaped,
    ),
    _named(
        "token",
        rf"(?:{_WEAK}){_NAME_END}{_ASSIGNED}{_FOLDED}(?:{_QUOTED}|{_BARE})",
        "token",
        "secret",
        "credential",
        "session",
        confirm=is_token_shaped,
    ),
)
# Where two rules find overlapping secrets, the earlier names the kind.
RULES: tuple[Rule, ...] = (*_BLOCKS, *_TOKENS, *_PLACES, *_NAMED)
_TELLING_NAME = re.compile(
    rf"(?:.*(?:{_STRONG})|(?:.*[_.\- ])?(?:{_WEAK}|authorization|(?:set-)?cookie)){_NAME_END}",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_NAME = 128


def is_telling(name: str) -> bool:
    """Say whether a field of this name holds a secret, whatever it looks like."""
    return len(name) <= _LONGEST_NAME and bool(_TELLING_NAME.fullmatch(name.lstrip("-")))
