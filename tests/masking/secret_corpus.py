"""Secrets and look-alikes, made from a seed at run time: nothing here is, or resembles, a stored secret."""

import base64
import hashlib
import random
import string
import uuid
from dataclasses import dataclass

_LETTERS_DIGITS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_BASE32 = string.ascii_uppercase + "234567"
_URL = _LETTERS_DIGITS + "-_"


@dataclass(frozen=True)
class Planted:
    """A text with a secret in it."""

    name: str
    text: str
    secret: str


class Corpus:
    """Everything is drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, alphabet: str, length: int) -> str:
        """Random text that always has a digit and a letter in the middle, as generated secrets have."""
        drawn = [self._random.choice(alphabet) for _ in range(length)]
        if any(map(str.isdigit, alphabet)):
            drawn[length // 2] = self._random.choice([c for c in alphabet if c.isdigit()])
        return "".join(drawn)

    def word(self, length: int = 20) -> str:
        return self.text(_LETTERS_DIGITS, length)

    def planted(self) -> list[Planted]:
        return [*self._vendor_tokens(), *self._blocks(), *self._addresses(), *self._headers(), *self._named()]

    def _token(self, name: str, prefix: str, alphabet: str, length: int) -> Planted:
        secret = prefix + self.text(alphabet, length)
        around = self._random.choice(["export X='{}'", "line before {} and after", "{}", 'got "{}".'])
        return Planted(name, around.format(secret), secret)

    def _vendor_tokens(self) -> list[Planted]:
        return [
            self._token("aws key id", "AK" + "IA", _BASE32, 16),
            self._token("github classic", "gh" + "p_", _LETTERS_DIGITS, 36),
            self._token("github server", "gh" + "s_", _LETTERS_DIGITS, 36),
            self._token("github fine", "github" + "_pat_", _LETTERS_DIGITS, 60),
            self._token("gitlab", "gl" + "pat-", _URL, 20),
            self._token("slack bot", "xo" + "xb-", string.digits, 12),
            self._token("slack app", "xa" + "pp-", _LETTERS_DIGITS, 40),
            self._token("stripe", "sk" + "_live_", _LETTERS_DIGITS, 24),
            self._token("stripe hook", "wh" + "sec_", _LETTERS_DIGITS, 32),
            self._token("model api", "s" + "k-", _LETTERS_DIGITS, 48),
            self._token("model api project", "s" + "k-proj-", _URL, 48),
            self._token("google api", "AI" + "za", _URL, 35),
            self._token("google oauth", "ya" + "29.", _URL, 60),
            self._token("npm", "np" + "m_", _LETTERS_DIGITS, 36),
            self._token("python index", "py" + "pi-AgE", _URL, 60),
            self._token("hub", "h" + "f_", string.ascii_letters + "1", 34),
            self._token("vault service", "hv" + "s.", _URL, 24),
            self._token("vault batch", "hv" + "b.", _URL, 60),
            self._token("docker", "dckr" + "_pat_", _URL, 27),
            self._token("grafana", "gl" + "sa_", _LETTERS_DIGITS, 32),
            self._token("sentry", "sn" + "trys_", _LETTERS_DIGITS, 60),
            self._token("shopify", "sh" + "pat_", _HEX, 32),
            self._token("databricks", "da" + "pi", _HEX, 32),
            self._token("mailgun", "ke" + "y-", _HEX, 32),
            self._token("twilio", "S" + "K", _HEX, 32),
            self._token("telegram", f"{self.text('123456789', 9)}:AA", _URL, 33),
            self._token("age", "AGE-SECRET" + "-KEY-1", _BASE32, 58),
            self._token("sendgrid", f"S{'G'}.{self.word(22)}.", _URL, 43),
        ]

    def _jwt(self) -> str:
        parts = [b'{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{self.word(12)}"}}'.encode()]
        encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
        return ".".join([*encoded, self.text(_URL, 43)])

    def _pem(self, kind: str, line_end: str = "\n") -> tuple[str, str]:
        body = line_end.join(self.text(_LETTERS_DIGITS + "+/", 64) for _ in range(6))
        head, tail = (f"-----{word} {kind}PRIVATE KEY-----" for word in ("BEGIN", "END"))
        return f"{head}{line_end}{body}{line_end}{tail}", body

    def _blocks(self) -> list[Planted]:
        jwt = self._jwt()
        found = [Planted("jwt", f"got {jwt} back", jwt)]
        for kind in ("", "RSA ", "EC ", "OPENSSH "):
            text, body = self._pem(kind)
            found.append(Planted(f"pem {kind}", f"before\n{text}\nafter", body))
        text, body = self._pem("RSA ", "\\n")
        found.append(Planted("pem in json", f'{{"key": "{text}"}}', body))
        text, body = self._pem("")
        found.append(Planted("pem cut off", text[: text.index("-----END")], body))
        hook = f"{self.text(_BASE32, 9)}/{self.text(_BASE32, 11)}/{self.word(24)}"
        found.append(Planted("slack hook", f"POST https://hooks.slack.com/services/{hook} 404", hook))
        return found

    def _addresses(self) -> list[Planted]:
        found = []
        for scheme in ("postgresql", "redis", "mongodb+srv", "amqp", "https"):
            secret = self.word(14)
            found.append(Planted(f"{scheme} url", f"connect {scheme}://app:{secret}@db.internal:5432/x", secret))
        secret = f"{self.word(6)}@{self.word(8)}"
        found.append(Planted("at in password", f"postgres://app:{secret}@db/x failed", secret))
        secret = self.word(16)
        found.append(Planted("password only", f"redis://:{secret}@cache:6379/0", secret))
        return found

    def _headers(self) -> list[Planted]:
        bearer, plain, cookie = self.text(_URL, 40), self.word(32), self.word(40)
        basic = base64.b64encode(f"user:{self.word(12)}".encode()).decode()
        sas = self.text(_LETTERS_DIGITS, 43) + "%3D"
        login = self.word(14)
        return [
            Planted("bearer", f"Authorization: Bearer {bearer}", bearer),
            Planted("bearer in json", f'{{"Authorization": "Bearer {bearer}"}}', bearer),
            Planted("bearer alone", f"sent bearer {bearer} and got 401", bearer),
            Planted("basic", f"authorization: Basic {basic}", basic),
            Planted("basic alone", f"header 'Basic {basic}'", basic),
            Planted("api key header", f"X-API-Key: {plain}", plain),
            Planted("cookie", f"Cookie: sid={cookie}; theme=dark", cookie),
            Planted("set-cookie", f"< Set-Cookie: sid={cookie}; HttpOnly", cookie),
            Planted("query token", f"GET /v1?access_token={plain}&page=2", plain),
            Planted("sas", f"https://x.blob.core/y?sv=2024&sig={sas}&se=1", sas),
            Planted("curl user", f"curl -u admin:{login} https://x", login),
            Planted("registry", f"//registry.example/:_authToken={plain}", plain),
        ]

    def _named(self) -> list[Planted]:
        patterns = {
            "environment": "PGPASSWORD={}",
            "exported": 'export DB_PASSWORD="{}"',
            "libpq": "host=db user=app password={} dbname=x",
            "aws secret": "aws_secret_access_key = {}",
            "yaml": "password: {}",
            "yaml folded": "password: >-\n  {}\n",
            "json": '{{"client_secret": "{}"}}',
            "json escaped": '{{\\"password\\": \\"{}\\"}}',
            "json escaped twice": '{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}',
            "flag": "deploy --password {} --force",
            "flag with equals": "deploy --api-key={}",
            "flag in list": '["login", "--password", "{}"]',
            "xml": "<password>{}</password>",
            "url encoded": "body=user%3Dx%26password%3D{}",
            "wide equals": "password     =     {}",
            "python": "api_key = '{}'",
            "ini number": "SECRET_KEY_2={}",
            "camel": '"clientSecret": "{}"',
            "account key": "DefaultEndpointsProtocol=https;AccountKey={};",
            "approle": "secret_id={}",
            "said": "the password is {} for now",
            "sql": "ALTER USER app IDENTIFIED BY '{}'",
            "token": "token: {}",
            "vault token": "VAULT_TOKEN={}",
            "ruby": 'password => "{}"',
            "go": 'token := "{}"',
        }
        found = []
        for name, pattern in patterns.items():
            secret = self.word(24)
            found.append(Planted(name, pattern.format(secret), secret))
        spaced = "correct horse battery " + self.word(6)
        found.append(Planted("with spaces", f'password = "{spaced}"', spaced))
        letters = self.text(string.ascii_lowercase, 12)
        found.append(Planted("letters only", f"DB_PASSWORD={letters}", letters))
        return found

    def look_alikes(self) -> list[str]:
        """Texts in which nothing is secret."""
        digest = hashlib.sha256(self.word().encode())
        sha256, sha512 = digest.hexdigest(), base64.b64encode(hashlib.sha512(digest.digest()).digest()).decode()
        number = uuid.UUID(int=self._random.getrandbits(128), version=4)
        return [
            f"commit {sha256[:40]}",
            f"sha256:{sha256}",
            f"md5 {sha256[:32]}",
            f"cache-key-{sha256[:32]}",
            f"signature s1:{sha256[:32]}",
            f"id {number}",
            f"ulid {self.text(_BASE32, 26)}",
            f"traceparent: 00-{sha256[:32]}-{sha256[:16]}-01",
            f'"integrity": "sha512-{sha512}"',
            f"--hash=sha256:{sha256}",
            f'hash = "sha256-{sha512[:43]}="',
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{self.word(40)} a@b",
            f"-----BEGIN CERTIFICATE-----\n{self.word(64)}\n-----END CERTIFICATE-----",
            f"-----BEGIN PUBLIC KEY-----\n{self.word(64)}\n-----END PUBLIC KEY-----",
            f"image: app@sha256:{sha256}",
            f'etag: W/"{sha256[:32]}"',
            f"token_count={self._random.randint(1, 10**6)}",
            'max_tokens: 200000, "total_tokens": 1234567',
            "prompt tokens: 1,234 completion tokens: 56",
            "token: 42",
            "password: ********",
            "password: <your password>",
            "PASSWORD=${DB_PASSWORD}",
            "password = {{ vault_password }}",
            "api_key: YOUR_API_KEY",
            "token=xxxxxxxxxxxxxxxx",
            "password=changeme",
            "secret: null",
            'Error: password authentication failed for user "app"',
            "Enter the password, then press return.",
            "password is required",
            "password: required",
            "The token is expired; ask for another one.",
            "SyntaxError: Unexpected token < in JSON at position 0",
            "Unexpected token: identifier",
            "error: expected one of `,` or `>`, found token: `foo`",
            "password = get_password()",
            "token = self.next_token",
            "secret = os.environ['SECRET']",
            "api_key=settings.api_key",
            "def login(user: str, password: str) -> None:",
            "password: Optional[str] = None",
            "password_policy: strict-2024",
            "tokenizer: byte-pair-2",
            "secretary: Anna2",
            "--password-file /run/secrets/db1",
            "--token-count 5000000",
            "http://localhost:8080/path@2x.png",
            "http://user@host/path",
            "git@github.com:acme/api.git",
            "see https://example.org/a:b@c",
            "basic authentication required",
            "bearer authentication",
            "cookie: yes",
            "sk-learn-contrib-imbalanced-learning",
            "key-value-store-abcdef",
            "[REDACTED:github:12ab]",
            "token=[REDACTED:token:12ab]",
            "secret_key env:APP_SECRET_2024",
            "password: vault:database/app#password1",
            "monkey=banana12345678",
            "passwords: 3 found",
            "Authorization: Bearer ${TOKEN}",
            "OSError: [Errno 98] Address already in use: 127.0.0.1:8080",
        ]
