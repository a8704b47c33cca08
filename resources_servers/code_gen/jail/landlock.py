# pathlib costs more to import than everything in this folder.
# ruff: noqa: PTH112
"""Landlock: which files a process may touch, whatever its user may.

A second wall inside the namespaces' own root, and the only one where a machine grants no
namespaces. Nothing may be executed anywhere. Asking for the attributes of a file is the one thing
that Landlock does not regulate.
"""

import os

from resources_servers.code_gen.jail import kernel

_WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
_TCP = 0b11
_SCOPES = 0b11
_ASK_VERSION = 1
_PATH_BENEATH = 1


def restrict(readable: list[str], writable: list[str]) -> None:
    """Only these paths from now on, for this process. Raises OSError where there is no Landlock.

    `no_new_privs` has to be set already.
    """
    version = kernel.system_call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    files = _FIRST_RIGHTS
    if version >= 2:
        files |= _REFER
    if version >= 3:
        files |= _TRUNCATE
    if version >= 5:
        files |= _DEVICE_CONTROL
    ruleset = files.to_bytes(8, "little")
    if version >= 4:
        ruleset += _TCP.to_bytes(8, "little")
    if version >= 6:
        ruleset += _SCOPES.to_bytes(8, "little")
    descriptor = kernel.system_call("landlock_create_ruleset", ruleset, len(ruleset), 0)
    for path in readable:
        _allow(descriptor, path, _READ_FILE | _READ_FOLDER)
    for path in writable:
        # Executing is the first right.
        _allow(descriptor, path, files & ~1)
    kernel.system_call("landlock_restrict_self", descriptor, 0)
    os.close(descriptor)


def _allow(ruleset: int, path: str, rights: int) -> None:
    target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        rights &= _WRITE_FILE | _READ_FILE | _TRUNCATE
    rule = rights.to_bytes(8, "little") + target.to_bytes(4, "little")
    kernel.system_call("landlock_add_rule", ruleset, _PATH_BENEATH, rule, 0)
    os.close(target)
