from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import pot as pot
from . import torch as torch

__version__: str

_Start = Union["Solution", Tuple[npt.ArrayLike, npt.ArrayLike], npt.ArrayLike]
_Slack = Union[Tuple[float, float], Dict[str, float]]
_Progress = Callable[[Dict[str, Any]], Optional[bool]]
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_SidePenalty = Union[None, float, Tuple[str, float]]
_Penalty = Union[_SidePenalty, Tuple[_SidePenalty, _SidePenalty]]

class TransportError(ValueError): ...
class ShapeError(TransportError): ...
class MassError(TransportError): ...
class CostError(TransportError): ...
class InfeasibleError(TransportError): ...
class OptionError(TransportError): ...

class Certificate:
    @property
    def primal(self) -> float: ...
    @property
    def dual(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...
    @property
    def objective(self) -> float: ...
    @property
    def violation(self) -> float: ...
    @property
    def mass(self) -> float: ...

class Solution:
    @property
    def value(self) -> float: ...
    @property
    def transport_cost(self) -> float: ...
    @property
    def regularised(self) -> float: ...
    @property
    def grad_a(self) -> _Floats: ...
    @property
    def grad_b(self) -> _Floats: ...
    @property
    def grad_x(self) -> _Floats: ...
    @property
    def grad_y(self) -> _Floats: ...
    @property
    def certificate(self) -> Certificate: ...
    @property
    def status(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def advice(self) -> Optional[str]: ...
    @property
    def iterations(self) -> int: ...
    @property
    def violation(self) -> float: ...
    @property
    def eps(self) -> float: ...
    @property
    def shape(self) -> Tuple[int, int]: ...
    @property
    def a(self) -> _Floats: ...
    @property
    def b(self) -> _Floats: ...
    @property
    def f(self) -> _Floats: ...
    @property
    def g(self) -> _Floats: ...
    @property
    def plan(self) -> _Floats: ...
    @property
    def sparse(self) -> Any: ...
    def apply(self, y: npt.ArrayLike) -> _Floats: ...
    def apply_t(self, x: npt.ArrayLike) -> _Floats: ...
    def map(self, x_new: npt.ArrayLike) -> _Floats: ...
    def pull_back(
        self,
        plan: Optional[npt.ArrayLike] = None,
        f: Optional[npt.ArrayLike] = None,
        g: Optional[npt.ArrayLike] = None,
    ) -> Dict[str, Any]: ...
    def entries(self, threshold: float = 0.0) -> Tuple[_Ints, _Ints, _Floats]: ...

def solve(
    cost: Union["Grid", npt.ArrayLike],
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    *,
    eps: Optional[float] = None,
    tol: float = 1e-6,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    slack: Optional[_Slack] = None,
    partial: Optional[float] = None,
    penalty: _Penalty = None,
    reference: str = "product",
    start: Optional[_Start] = None,
    progress: Optional[_Progress] = None,
) -> Solution: ...
def solve_points(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    *,
    metric: str = "sqeuclidean",
    eps: Optional[float] = None,
    tol: float = 1e-6,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    slack: Optional[_Slack] = None,
    partial: Optional[float] = None,
    penalty: _Penalty = None,
    reference: str = "product",
    start: Optional[_Start] = None,
    progress: Optional[_Progress] = None,
) -> Solution: ...
def solve_sparse(
    cost: Any,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    *,
    eps: Optional[float] = None,
    tol: float = 1e-6,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    slack: Optional[_Slack] = None,
    partial: Optional[float] = None,
    penalty: _Penalty = None,
    reference: str = "product",
    start: Optional[_Start] = None,
    progress: Optional[_Progress] = None,
) -> Solution: ...
def assignment(cost: npt.ArrayLike, maximise: bool = False) -> Tuple[_Ints, _Ints]: ...

class Divergence:
    @property
    def value(self) -> float: ...
    @property
    def error(self) -> float: ...
    @property
    def grad_x(self) -> _Floats: ...
    @property
    def grad_y(self) -> _Floats: ...
    @property
    def grad_a(self) -> _Floats: ...
    @property
    def grad_b(self) -> _Floats: ...
    @property
    def status(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def iterations(self) -> int: ...
    def __float__(self) -> float: ...

def divergence(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    *,
    eps: float,
    metric: str = "sqeuclidean",
    tol: float = 1e-6,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    penalty: _SidePenalty = None,
    progress: Optional[_Progress] = None,
) -> Divergence: ...

class LineTransport:
    @property
    def cost(self) -> float: ...
    @property
    def distance(self) -> float: ...
    @property
    def dual(self) -> float: ...
    @property
    def f(self) -> _Floats: ...
    @property
    def g(self) -> _Floats: ...
    @property
    def grad_x(self) -> _Floats: ...
    @property
    def grad_y(self) -> _Floats: ...
    @property
    def entries(self) -> Tuple[_Ints, _Ints, _Floats]: ...
    @property
    def sparse(self) -> Any: ...
    @property
    def plan(self) -> _Floats: ...

def wasserstein_1d(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    p: float = 1.0,
) -> float: ...
def transport_1d(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    p: float = 1.0,
) -> LineTransport: ...

class SlicedDistance:
    @property
    def value(self) -> float: ...
    @property
    def cost(self) -> float: ...
    @property
    def standard_error(self) -> float: ...
    @property
    def costs(self) -> _Floats: ...
    @property
    def grad_x(self) -> Optional[_Floats]: ...
    @property
    def grad_y(self) -> Optional[_Floats]: ...
    def __float__(self) -> float: ...

class MaxSliced:
    @property
    def value(self) -> float: ...
    @property
    def direction(self) -> _Floats: ...
    @property
    def stationarity(self) -> float: ...
    def __float__(self) -> float: ...

def sliced(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    p: float = 2.0,
    projections: int = 100,
    seed: int = 0,
    *,
    gradients: bool = False,
) -> SlicedDistance: ...
def max_sliced(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    p: float = 2.0,
    projections: int = 100,
    seed: int = 0,
) -> MaxSliced: ...

class GromovCertificate:
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @property
    def stationarity(self) -> float: ...

class GromovSolution:
    @property
    def value(self) -> float: ...
    @property
    def distance(self) -> float: ...
    @property
    def status(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def iterations(self) -> int: ...
    @property
    def shape(self) -> Tuple[int, int]: ...
    @property
    def certificate(self) -> GromovCertificate: ...
    @property
    def plan(self) -> _Floats: ...
    @property
    def sparse(self) -> Any: ...
    def entries(self, threshold: float = 0.0) -> Tuple[_Ints, _Ints, _Floats]: ...
    def argmax(self) -> _Ints: ...

def gromov(
    c1: npt.ArrayLike,
    c2: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    *,
    fused: Optional[npt.ArrayLike] = None,
    alpha: float = 0.5,
    loss: str = "square",
    eps: Optional[float] = None,
    tol: Optional[float] = None,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    starts: int = 1,
    seed: int = 0,
    partial: Optional[float] = None,
    semi_relaxed: bool = False,
    progress: Optional[_Progress] = None,
) -> GromovSolution: ...
def gromov_points(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: Optional[npt.ArrayLike] = None,
    b: Optional[npt.ArrayLike] = None,
    *,
    eps: Optional[float] = None,
    tol: Optional[float] = None,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    starts: int = 1,
    seed: int = 0,
    progress: Optional[_Progress] = None,
) -> GromovSolution: ...

def solve_batch(
    costs: Any,
    a: Any = None,
    b: Any = None,
    *,
    eps: Optional[float] = None,
    tol: float = 1e-6,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
) -> List[Solution]: ...

class Grid:
    def __init__(self, shape: Sequence[int]) -> None: ...
    @property
    def shape(self) -> List[int]: ...

class BarycenterResult:
    @property
    def weights(self) -> _Floats: ...
    @property
    def status(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def iterations(self) -> int: ...
    @property
    def violation(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...

def barycenter(
    histograms: npt.ArrayLike,
    cost_or_grid: Union[Grid, npt.ArrayLike],
    eps: float,
    weights: Optional[npt.ArrayLike] = None,
    *,
    debiased: bool = False,
    tol: float = 1e-6,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    progress: Optional[_Progress] = None,
) -> BarycenterResult: ...

class PointBarycenter:
    @property
    def points(self) -> _Floats: ...
    @property
    def masses(self) -> _Floats: ...
    @property
    def value(self) -> float: ...
    @property
    def status(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def iterations(self) -> int: ...
    @property
    def movement(self) -> float: ...

def barycenter_points(
    clouds: Sequence[npt.ArrayLike],
    size: Optional[int] = None,
    weights: Optional[npt.ArrayLike] = None,
    *,
    masses: Optional[Sequence[npt.ArrayLike]] = None,
    support_masses: Optional[npt.ArrayLike] = None,
    free_masses: bool = False,
    start: Optional[npt.ArrayLike] = None,
    eps: Optional[float] = None,
    tol: float = 1e-7,
    max_iter: Optional[int] = None,
    time_limit: Optional[float] = None,
    seed: int = 0,
    progress: Optional[_Progress] = None,
) -> PointBarycenter: ...

class LabelAllocator:
    def __init__(
        self,
        examples: int,
        classes: int,
        *,
        bounds: Optional[npt.ArrayLike] = None,
        row_bounds: Optional[npt.ArrayLike] = None,
        gamma: float = 100.0,
        tol: float = 0.01,
        max_iter: int = 1000,
        storage: str = "single",
    ) -> None: ...
    @staticmethod
    def empirical(counts: npt.ArrayLike) -> _Floats: ...
    @staticmethod
    def wilson(counts: npt.ArrayLike, confidence: float = 0.8) -> _Floats: ...
    @property
    def examples(self) -> int: ...
    @property
    def classes(self) -> int: ...
    @property
    def gamma(self) -> float: ...
    @property
    def rho(self) -> float: ...
    @property
    def scaling(self) -> _Floats: ...
    @property
    def costs(self) -> npt.NDArray[np.float32]: ...
    def set_bounds(self, bounds: Optional[npt.ArrayLike] = None) -> None: ...
    def set_row_bounds(self, row_bounds: Optional[npt.ArrayLike] = None) -> None: ...
    def observe(self, indices: npt.ArrayLike, log_probs: npt.ArrayLike) -> None: ...
    def allocate(self, rho: float) -> Dict[str, Any]: ...
    def targets(self, log_probs: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
    def plan_rows(self, indices: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
    def hard_labels(self) -> _Ints: ...
    def save(self, path: Any) -> None: ...
    @staticmethod
    def load(path: Any) -> "LabelAllocator": ...
