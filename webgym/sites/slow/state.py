"""What a visitor had the patience for."""

import msgspec


class SlowState(msgspec.Struct):
    """Whether the report was asked for with the late button, and the address given for warnings."""

    report_printed: bool = False
    subscribed: str = ""
    entries_loaded: int = 0
