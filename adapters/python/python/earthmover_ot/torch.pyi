from typing import Any, List, Optional, Union

import numpy.typing as npt
from torch import Tensor

__all__: List[str]

_Masses = Optional[Union[Tensor, npt.ArrayLike]]

def transport(cost: Tensor, a: _Masses = None, b: _Masses = None, *, eps: Optional[float] = None, tol: float = 1e-9, **options: Any) -> Tensor: ...
def transport_points(
    x: Tensor,
    y: Tensor,
    a: _Masses = None,
    b: _Masses = None,
    *,
    metric: str = "sqeuclidean",
    eps: Optional[float] = None,
    tol: float = 1e-6,
    **options: Any,
) -> Tensor: ...
def divergence(
    x: Tensor,
    y: Tensor,
    a: _Masses = None,
    b: _Masses = None,
    *,
    eps: float,
    metric: str = "sqeuclidean",
    tol: float = 1e-6,
    **options: Any,
) -> Tensor: ...
def sliced(
    x: Tensor,
    y: Tensor,
    a: _Masses = None,
    b: _Masses = None,
    *,
    p: float = 2.0,
    projections: int = 100,
    seed: int = 0,
) -> Tensor: ...
def plan(cost: Tensor, a: _Masses = None, b: _Masses = None, *, eps: float, tol: float = 1e-10, **options: Any) -> Tensor: ...
