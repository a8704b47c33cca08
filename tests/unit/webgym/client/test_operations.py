import inspect
import pickle

from rollgym.servers.context import TIMEOUT_HEADER
from webgym.client import operations

OPERATIONS = (
    operations.allocate,
    operations.release,
    operations.navigate,
    operations.execute,
    operations.screenshot,
    operations.metadata,
    operations.page_metadata,
    operations.accessibility_tree,
    operations.step,
)


def test_every_operation_can_be_sent_to_another_process() -> None:
    for operation in OPERATIONS:
        assert pickle.loads(pickle.dumps(operation)) is operation
        assert list(inspect.signature(operation).parameters)[:2] == ["server", "due"]


def test_the_deadline_travels_under_the_name_that_servers_read() -> None:
    assert operations.TIMEOUT_HEADER == TIMEOUT_HEADER
