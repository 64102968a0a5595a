import os
import threading
import time
from dataclasses import replace

from executors.blobs import alone_in, stored_outputs, tenant_store
from executors.retention import Retention, sweep

DAY = 86_400


def keep(settings, data, tenant=None, age_days=0):
    settings.state_dir.mkdir(exist_ok=True)
    store = tenant_store(settings, tenant)
    path = store.find(store.keep(data, settings.state_dir / f"partial-{data.decode()}"))
    then = time.time() - age_days * DAY
    os.utime(path, (then, then))
    return path


def test_old_outputs_of_every_tenant_go_and_younger_ones_stay(settings):
    old = [keep(settings, b"old", tenant, age_days=15) for tenant in (None, "acme", "..")]
    young = keep(settings, b"young", "acme", age_days=13)
    assert sweep(stored_outputs(settings), time.time() - 14 * DAY) == 3
    assert young.exists()
    assert not any(path.exists() for path in old)


def test_an_output_that_is_stored_again_is_kept_from_then_on(settings):
    keep(settings, b"text", age_days=15)
    again = tenant_store(settings, None).keep(b"text", settings.state_dir / "partial")
    assert sweep(stored_outputs(settings), time.time() - 14 * DAY) == 0
    assert tenant_store(settings, None).find(again).read_bytes() == b"text"


def test_nothing_is_stored_in_a_folder_that_is_being_swept(settings):
    path = keep(settings, b"text")
    stored = threading.Event()

    def store_again():
        tenant_store(settings, None).keep(b"text", settings.state_dir / "partial")
        stored.set()

    with alone_in(path.parent):
        storing = threading.Thread(target=store_again)
        storing.start()
        path.unlink()
        assert not stored.wait(0.1)
    storing.join()
    assert path.read_bytes() == b"text"


def test_what_is_no_folder_of_outputs_is_left_alone(settings, tmp_path):
    stray = stored_outputs(settings) / "acme" / "notes"
    stray.parent.mkdir(parents=True)
    stray.write_text("not ours")
    os.utime(stray, (0, 0))
    assert sweep(stored_outputs(settings), time.time()) == 0
    assert sweep(tmp_path / "nothing here", time.time()) == 0
    assert stray.exists()


def test_a_sweep_is_begun_once_an_hour_and_takes_the_days_of_the_settings(settings):
    path = keep(settings, b"text", age_days=2)
    retention = Retention(replace(settings, output_days=1))
    retention.sweep_if_due().join()
    assert not path.exists()
    assert retention.sweep_if_due() is None
