from pathlib import Path

import pytest
from pydantic import TypeAdapter

from memory.settings import EmbeddingSettings
from poimen.contracts.message import Queue
from worker.options import SettingsError
from worker.settings import Settings

MEMORY = {"POIMEN_POSTGRES_DSN": "postgresql://app:hunter22@db/poimen", "POIMEN_MASKING_KEY": "key"}
PROXY = "Model small: proxy must be a URL that begins with http:// or https://."


def refused(variables: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load(variables)
    return str(error.value)


def test_a_misspelt_variable_is_refused_with_the_one_that_was_meant() -> None:
    assert refused({"POIMEN_TASK_QUEU": "q"}) == 'POIMEN_TASK_QUEU is not a setting; did you mean "POIMEN_TASK_QUEUE"?'


def test_an_unknown_variable_is_refused_without_its_value() -> None:
    assert refused({"POIMEN_XYZZY": "hunter22"}) == "POIMEN_XYZZY is not a setting."


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("q" * 141, "has 141 characters; at most 140"),
        ("a\nb", "contains U+000A at character 2"),
        ("/_sys/q", 'begins with "/_sys/", which is reserved; choose another'),
    ],
)
def test_a_task_queue_that_temporal_would_refuse_is_refused_at_the_start(queue: str, why: str) -> None:
    assert refused({"POIMEN_TASK_QUEUE": queue}) == f"POIMEN_TASK_QUEUE {why}."


def test_the_queue_of_an_executor_fits_whatever_the_task_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 255)
    settings = Settings.load({"POIMEN_TASK_QUEUE": "q" * 140, "POIMEN_STATE": str(tmp_path)})
    assert TypeAdapter(Queue).validate_python(settings.executor().queue)


def test_what_a_step_is_given_by_its_executor_is_no_setting() -> None:
    own = {f"POIMEN_{name}": "x" for name in ("RUN", "STEP", "ATTEMPT", "CONTEXT", "RESULT", "CHECKPOINT")}
    assert Settings.load(own).task_queue == "poimen"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("POOL_SIZE", "0", "POIMEN_POOL_SIZE must be a whole number, 1 or more."),
        ("POOL_SIZE", "many", "POIMEN_POOL_SIZE must be a whole number, 1 or more."),
        ("GRACE_SECONDS", "nan", "POIMEN_GRACE_SECONDS must be a number of seconds."),
        ("OUTPUT_DAYS", "0", "POIMEN_OUTPUT_DAYS must be a number of days."),
        ("ROLE", "boss", 'POIMEN_ROLE must be one of "memory", "executor", "all".'),
        ("COMMANDS", "maybe", 'POIMEN_COMMANDS must be "on" or "off".'),
    ],
)
def test_a_value_of_another_form_is_refused_with_what_is_wanted(name: str, value: str, sentence: str) -> None:
    assert refused({f"POIMEN_{name}": value}) == sentence


def test_a_secret_is_read_from_the_file_that_a_variable_names(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    settings = Settings.load({**MEMORY, "POIMEN_MASKING_KEY": "", "POIMEN_MASKING_KEY_FILE": str(tmp_path / "key")})
    assert settings.memory().masking_key == b"from-a-file"


def test_a_secret_given_twice_is_refused(tmp_path: Path) -> None:
    both = {"POIMEN_MASKING_KEY": "a", "POIMEN_MASKING_KEY_FILE": str(tmp_path / "key")}
    assert refused(both) == "Both POIMEN_MASKING_KEY and POIMEN_MASKING_KEY_FILE are set; set one."


def test_a_secret_file_that_is_not_there_is_refused_without_its_path(tmp_path: Path) -> None:
    sentence = refused({"POIMEN_MASKING_KEY_FILE": str(tmp_path / "nothing")})
    assert sentence == "The file that POIMEN_MASKING_KEY_FILE names cannot be read."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("poimen.toml", 'task_queue = "from-file"\ntenants = ["a", "b"]\npool_size = 3\n'),
        ("poimen.yaml", "task_queue: from-file\ntenants: [a, b]\npool_size: 3\n"),
    ],
)
def test_a_file_gives_what_no_variable_does(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    settings = Settings.load({**MEMORY, "POIMEN_CONFIG": str(tmp_path / name), "POIMEN_POOL_SIZE": "5"})
    assert settings.task_queue == "from-file"
    assert settings.memory().tenants == ("a", "b")
    assert settings.memory().default_tenant == "a"
    assert settings.memory().pool_max_size == 5


def test_an_unknown_setting_of_a_file_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "poimen.toml").write_text('task_que = "q"\n')
    sentence = refused({"POIMEN_CONFIG": str(tmp_path / "poimen.toml")})
    assert sentence == 'poimen.toml has no setting "task_que"; did you mean "task_queue"?'


@pytest.mark.parametrize(("name", "text"), [("a.toml", "x = ["), ("a.yaml", "x: ["), ("a.ini", "x"), ("a.yaml", "[]")])
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert refused({"POIMEN_CONFIG": str(tmp_path / name)}).startswith(name)


def test_memory_needs_a_database_and_a_key() -> None:
    with pytest.raises(SettingsError, match="POIMEN_POSTGRES_DSN is not set; a memory worker needs it"):
        Settings.load({}).memory()
    with pytest.raises(SettingsError, match="POIMEN_MASKING_KEY is not set"):
        Settings.load({"POIMEN_POSTGRES_DSN": "postgresql://db/x"}).memory()


def test_a_default_tenant_must_be_served() -> None:
    with pytest.raises(SettingsError, match="POIMEN_DEFAULT_TENANT is not one of POIMEN_TENANTS"):
        Settings.load({**MEMORY, "POIMEN_DEFAULT_TENANT": "b", "POIMEN_TENANTS": "a"}).memory()


def test_the_worker_masks_its_own_credentials() -> None:
    settings = Settings.load({**MEMORY, "POIMEN_SECRETS": "one\ntwo"})
    assert {"hunter22", "key", "one", "two"} <= set(settings.memory().secrets)


def test_what_is_shown_of_the_settings_holds_no_secret() -> None:
    settings = Settings.load({**MEMORY, "POIMEN_SECRETS": "squeamish"})
    shown = f"{settings.shown()} {settings!r} {settings.memory()!r}"
    assert settings.shown()["postgres_dsn"] == "(set)"
    assert not any(secret in shown for secret in ("hunter22", "squeamish", "b'key'"))


def test_an_executor_gets_the_allowed_variables_and_no_others(tmp_path: Path) -> None:
    variables = {"POIMEN_STATE": str(tmp_path), "POIMEN_ALLOWED_VARIABLES": "IMAGE, ABSENT", "IMAGE": "i", "OTHER": "o"}
    executor = Settings.load({**variables, **MEMORY, "PATH": "/somewhere"}).executor()
    assert dict(executor.variables) == {"IMAGE": "i"}
    assert executor.allowed_variables == {"IMAGE", "ABSENT"}
    assert dict(executor.base_environment) == {"PATH": "/somewhere", "LANG": "C.UTF-8"}


def test_an_executor_keeps_its_host_and_queue_over_restarts(tmp_path: Path) -> None:
    variables = {"POIMEN_STATE": str(tmp_path / "a"), "POIMEN_TASK_QUEUE": "q"}
    first, again = Settings.load(variables).executor(), Settings.load(variables).executor()
    other = Settings.load({**variables, "POIMEN_STATE": str(tmp_path / "b")}).executor()
    assert first.queue == again.queue == f"q-executor-{first.host}"
    assert other.host != first.host


def test_models_are_read_with_their_key_from_a_variable(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(
        '[small]\nbase_url = "http://models/v1"\nmodel = "tiny"\napi_key = "env:TINY_KEY"\nmax_tokens = 100\n'
    )
    variables = {"POIMEN_STATE": str(tmp_path), "POIMEN_MODELS_FILE": str(tmp_path / "models.toml"), "TINY_KEY": "tk-1"}
    settings = Settings.load({**variables, **MEMORY})
    model = settings.executor().models["small"]
    assert (model.base_url, model.model, model.api_key, model.max_tokens) == ("http://models/v1", "tiny", "tk-1", 100)
    assert "tk-1" in settings.memory().secrets


def test_a_model_may_be_reached_through_a_proxy(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('[small]\nbase_url = "u"\nmodel = "m"\nproxy = "env:PROXY"\n')
    variables = {"POIMEN_STATE": str(tmp_path), "POIMEN_MODELS_FILE": str(tmp_path / "models.toml")}
    settings = Settings.load({**variables, "PROXY": "http://user:pw@proxy:3128"})
    assert settings.executor().models["small"].proxy == "http://user:pw@proxy:3128"


def test_outputs_are_kept_for_as_many_days_as_are_set(tmp_path: Path) -> None:
    variables = {"POIMEN_STATE": str(tmp_path)}
    assert Settings.load(variables).executor().output_days == 14
    assert Settings.load({**variables, "POIMEN_OUTPUT_DAYS": "0.5"}).executor().output_days == 0.5


def test_memory_needs_no_key_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('[small]\nbase_url = "u"\nmodel = "m"\napi_key = "env:ELSEWHERE"\n')
    Settings.load({**MEMORY, "POIMEN_MODELS_FILE": str(tmp_path / "models.toml")}).memory()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ('base_ur = "x"', 'Model small has no setting "base_ur"; did you mean "base_url"?'),
        ('base_url = "x"', 'Model small needs "model".'),
        ('base_url = "x"\nmodel = "m"\napi_key = "env:NOPE"', "Model small: the variable NOPE is not set."),
        ('base_url = "x"\nmodel = "m"\nproxy = "ftp://user:hunter2@proxy:1"', PROXY),
        ('base_url = "x"\nmodel = "m"\nproxy = "proxy:3128"', PROXY),
        ('base_url = "x"\nmodel = "m"\nproxy = "http://"', PROXY),
        ('base_url = "x"\nmodel = "m"\nproxy = "http://proxy:none"', PROXY),
        ('base_url = "x"\nmodel = "m"\ntimeout = "soon"', "Model small: max_tokens and timeout must be numbers."),
    ],
)
def test_a_model_that_is_not_whole_is_refused_by_name(tmp_path: Path, table: str, sentence: str) -> None:
    (tmp_path / "poimen.toml").write_text(f"[models.small]\n{table}\n")
    settings = Settings.load({"POIMEN_CONFIG": str(tmp_path / "poimen.toml"), "POIMEN_STATE": str(tmp_path)})
    with pytest.raises(SettingsError) as error:
        settings.executor()
    assert str(error.value) == sentence


def test_temporal_is_found_as_its_own_command_line_finds_it() -> None:
    found = Settings.load({"TEMPORAL_ADDRESS": "there:7233", "TEMPORAL_NAMESPACE": "team"}).temporal()
    assert (found["target_host"], found["namespace"]) == ("there:7233", "team")


SEARCH = {**MEMORY, "POIMEN_INDEX": "opensearch", "POIMEN_OPENSEARCH_URL": "https://search:9200"}


def memory_refused(variables: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load(variables).memory()
    return str(error.value)


def test_the_index_is_in_postgres_unless_opensearch_is_named() -> None:
    assert Settings.load(MEMORY).memory().opensearch is None
    user = {"POIMEN_OPENSEARCH_USER": "poimen", "POIMEN_OPENSEARCH_PASSWORD": "hunter22"}
    memory = Settings.load({**SEARCH, **user, "POIMEN_OPENSEARCH_URL": "https://a:9200, https://b:9200/"}).memory()
    assert memory.opensearch is not None
    assert memory.opensearch.urls == ("https://a:9200", "https://b:9200")
    assert (memory.opensearch.user, memory.opensearch.password) == ("poimen", "hunter22")
    assert "hunter22" in memory.secrets
    assert "hunter22" not in repr(memory)


def test_opensearch_needs_a_url_and_a_password_with_a_user() -> None:
    sentence = memory_refused({**MEMORY, "POIMEN_INDEX": "opensearch"})
    assert sentence == "POIMEN_OPENSEARCH_URL is not set; it is needed because POIMEN_INDEX is opensearch."
    sentence = memory_refused({**SEARCH, "POIMEN_OPENSEARCH_USER": "poimen"})
    assert sentence == "POIMEN_OPENSEARCH_USER and POIMEN_OPENSEARCH_PASSWORD go together; set both."


@pytest.mark.parametrize("url", ["search:9200", "ftp://search", "https://poimen:hunter22@search:9200"])
def test_an_address_of_another_form_is_refused_without_its_value(url: str) -> None:
    sentence = refused({"POIMEN_OPENSEARCH_URL": url})
    assert sentence.startswith("POIMEN_OPENSEARCH_URL must ")
    assert "hunter22" not in sentence


def test_an_embedding_endpoint_needs_address_model_and_dimension() -> None:
    given = {**MEMORY, "POIMEN_EMBEDDER": "endpoint", "POIMEN_EMBEDDING_URL": "http://models/v1"}
    sentence = memory_refused(given)
    assert sentence == "POIMEN_EMBEDDING_MODEL is not set; it is needed because POIMEN_EMBEDDER is endpoint."
    whole = {**given, "POIMEN_EMBEDDING_MODEL": "small", "POIMEN_EMBEDDING_DIMENSION": "256"}
    embedder = Settings.load({**whole, "POIMEN_EMBEDDING_KEY": "sk-1"}).memory().embedder
    assert embedder == EmbeddingSettings(base_url="http://models/v1", model="small", dimension=256, api_key="sk-1")
    assert "sk-1" not in repr(embedder)


def test_the_embedder_is_the_installed_one_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load(MEMORY).memory().embedder == "minilm"
    assert Settings.load(MEMORY).by_words_because is None
    by_words = Settings.load({**MEMORY, "POIMEN_EMBEDDER": "none"})
    assert (by_words.memory().embedder, by_words.by_words_because) == (None, "POIMEN_EMBEDDER is none")
    monkeypatch.setattr("worker.extras.find_spec", lambda module: None if module == "onnxruntime" else object())
    assert Settings.load(MEMORY).memory().embedder is None
    because = Settings.load(MEMORY).by_words_because
    assert because == "onnxruntime is not installed (poimen-memory[embedding])"
    sentence = memory_refused({**MEMORY, "POIMEN_EMBEDDER": "minilm"})
    wanted = "POIMEN_EMBEDDER is minilm, and onnxruntime is not installed; install poimen-memory[embedding]."
    assert sentence == wanted
