from tests.worker.running import served

__all__ = ["served"]
