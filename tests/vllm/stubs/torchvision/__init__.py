"""Stands in for torchvision, of which the package index has no build for the CPU.

vLLM and transformers import it with every vision model. What they need to read a picture is here;
everything else can be imported, and raises when it is called.
"""

import sys
from collections.abc import MutableSequence, Sequence
from enum import Enum
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy
import torch

__version__ = "0.27.0"


class InterpolationMode(Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
    BOX = "box"
    HAMMING = "hamming"


def pil_to_tensor(picture: Any) -> Any:
    return torch.from_numpy(numpy.array(picture.convert("RGB"))).permute(2, 0, 1)


def resize(image: Any, size: Sequence[int], *_: Any, **__: Any) -> Any:
    pixels = image.float()
    batch = pixels if pixels.dim() == 4 else pixels[None]
    resized = torch.nn.functional.interpolate(batch, size=tuple(size), mode="bilinear")
    resized = resized if pixels.dim() == 4 else resized[0]
    return resized.round().clamp(0, 255).to(image.dtype) if image.dtype == torch.uint8 else resized


def normalize(image: Any, mean: Sequence[float], std: Sequence[float], *_: Any, **__: Any) -> Any:
    shape = (-1, 1, 1)
    return (image - torch.tensor(mean).view(shape)) / torch.tensor(std).view(shape)


_GIVEN = {
    "InterpolationMode": InterpolationMode,
    "pil_to_tensor": pil_to_tensor,
    "resize": resize,
    "normalize": normalize,
}
_MODULES = ("transforms", "v2", "functional", "io", "ops")


class _AnySubmodule(ModuleType):
    """A submodule with any name in it."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - what makes it a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in _MODULES:
            raise AttributeError(name)  # the import goes on with the submodule
        if name in _GIVEN:
            return _GIVEN[name]

        def missing(*_: Any, **__: Any) -> None:
            raise NotImplementedError(f"{self.__name__}.{name} is not in the stand-in")

        return type(name, (), {"__init__": missing}) if name[:1].isupper() else missing


class _SubmoduleFinder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        is_ours = fullname.startswith("torchvision.")
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AnySubmodule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(_SubmoduleFinder())
