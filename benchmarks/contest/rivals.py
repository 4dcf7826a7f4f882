"""The methods: each is fitted to training rows with a seed and gives log densities of test rows."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaln, logsumexp


class Fitted(Protocol):
    """A fitted density."""

    def logpdf(self, X: np.ndarray) -> np.ndarray:
        """Return the log density at every row of ``X``."""


Method = Callable[[np.ndarray, int], Fitted]


@dataclass(frozen=True)
class Scorer:
    """A density given by a function of log densities."""

    logpdf: Callable[[np.ndarray], np.ndarray]


# Ours


def ours(name: str, seeded: bool = False, **options: Any) -> Method:
    """Return a method that fits an estimator of sevenhills."""

    def fit(train: np.ndarray, seed: int) -> Fitted:
        import sevenhills

        given = options | ({"random_state": seed} if seeded else {})
        return getattr(sevenhills, name)(**given).fit(train).density_

    return fit


def auto_rome(train: np.ndarray, seed: int) -> Fitted:
    """Fit ``AutoROME`` with its defaults."""
    from sevenhills import AutoROME

    return Scorer(AutoROME().fit(train).score_samples)


# Gaussian mixtures

COMPONENTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48)


def gaussian_mixture(train: np.ndarray, k: int, seed: int) -> Any:
    """Fit ``k`` Gaussians of full covariance."""
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        # The held-out likelihood penalizes starts that do not converge.
        warnings.simplefilter("ignore")
        return GaussianMixture(k, reg_covar=1e-6, n_init=1, random_state=seed).fit(train)


def held_out(train: np.ndarray, k: int, seed: int, n_folds: int = 5) -> float:
    """Return the cross-validated log-likelihood of ``k`` Gaussians."""
    fold = np.random.RandomState(seed).permutation(len(train)) % n_folds
    try:
        scores = [
            gaussian_mixture(train[fold != held], k, seed).score_samples(train[fold == held])
            for held in range(n_folds)
        ]
    except ValueError:
        return -np.inf
    total = float(np.concatenate(scores).mean())
    return total if np.isfinite(total) else -np.inf


def gmm_cv(train: np.ndarray, seed: int) -> Fitted:
    """Fit the number of Gaussians with the best cross-validated likelihood."""
    n, n_features = train.shape
    # A full covariance needs about as many rows as features.
    counts = [k for k in COMPONENTS if k == 1 or k <= n // (n_features + 1)]
    best = max(counts, key=lambda k: held_out(train, k, seed))
    return Scorer(gaussian_mixture(train, best, seed).score_samples)


# Dirichlet process mixture


def log_student(X: np.ndarray, mean: np.ndarray, scale: np.ndarray, dof: float) -> np.ndarray:
    """Return the log density of a multivariate Student's t."""
    n_features = len(mean)
    root = np.linalg.cholesky(scale)
    distance = (np.linalg.solve(root, (X - mean).T) ** 2).sum(axis=0)
    constant = gammaln((dof + n_features) / 2) - gammaln(dof / 2)
    volume = 0.5 * n_features * np.log(dof * np.pi) + np.log(np.diag(root)).sum()
    return constant - volume - 0.5 * (dof + n_features) * np.log1p(distance / dof)


def dp_student(train: np.ndarray, seed: int) -> Fitted:
    """Fit the predictive density of a variational Dirichlet process mixture of Gaussians."""
    from sklearn.mixture import BayesianGaussianMixture

    n, n_features = train.shape
    mixture = BayesianGaussianMixture(
        n_components=int(np.clip(n // (n_features + 2), 1, 30)),
        weight_concentration_prior_type="dirichlet_process",
        max_iter=500,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture.fit(train)
    dofs = mixture.degrees_of_freedom_ - n_features + 1
    # scikit-learn's covariances are the inverse scales of the Wisharts over their degrees of
    # freedom, so these come back in as factors.
    factors = mixture.degrees_of_freedom_ * (1 + 1 / mixture.mean_precision_) / dofs
    scales = mixture.covariances_ * factors[:, None, None]

    def logpdf(X: np.ndarray) -> np.ndarray:
        parts = map(log_student, [X] * len(dofs), mixture.means_, scales, dofs)
        return logsumexp(np.stack(list(parts)), axis=0, b=mixture.weights_[:, None])

    return Scorer(logpdf)


# Flows

#: Steps between validations, and validations without improvement after which training stops.
EVERY, PATIENCE = 25, 15
#: A step of a spline flow takes about three times as long.
MAX_STEPS = {"NSF": 1000, "MAF": 1500}
BATCH, RATE, DECAY, SHARE = 256, 3e-3, 1e-5, 0.15


def new_flow(kind: str, n_features: int) -> Any:
    """Return an untrained neural spline flow or masked autoregressive flow."""
    import zuko

    return getattr(zuko.flows, kind)(n_features, transforms=3, hidden_features=(64, 64))


def train_flow(kind: str, train: np.ndarray, seed: int) -> Any:
    """Train a flow with early stopping on validation rows; return the best state."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(train))
    n_aside = max(2, round(SHARE * len(train)))
    rows = torch.as_tensor(train[order], dtype=torch.float32)
    aside, rows = rows[:n_aside], rows[n_aside:]
    flow = new_flow(kind, train.shape[1])
    optimiser = torch.optim.Adam(flow.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    most = MAX_STEPS[kind]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, most, eta_min=RATE / 20)
    best, best_state, last_gain = np.inf, None, 0
    for step in range(most + 1):
        if step % EVERY == 0:
            loss = validation_loss(flow, aside)
            if loss < best:
                best, last_gain = loss, step
                best_state = {name: part.clone() for name, part in flow.state_dict().items()}
            elif step - last_gain >= EVERY * PATIENCE:
                break
        descend(flow, rows[rng.randint(len(rows), size=min(BATCH, len(rows)))], optimiser)
        schedule.step()
    if best_state is not None:
        flow.load_state_dict(best_state)
    return flow


def validation_loss(flow: Any, rows: Any) -> float:
    """Return the negative mean log density."""
    import torch

    with torch.no_grad():
        return float(-flow().log_prob(rows).mean())


def descend(flow: Any, rows: Any, optimiser: Any) -> None:
    """Take one step, unless the loss is not finite."""
    import torch

    optimiser.zero_grad()
    loss = -flow().log_prob(rows).mean()
    if not torch.isfinite(loss):
        return
    loss.backward()
    # Outliers would otherwise cause very large steps.
    torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    optimiser.step()


def flow_logpdf(flow: Any, X: np.ndarray) -> np.ndarray:
    """Return the log density of a flow at every row."""
    import torch

    with torch.no_grad():
        return flow().log_prob(torch.as_tensor(X, dtype=torch.float32)).double().numpy()


def mean_density(logs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the log of the mean of densities; a density that is not finite counts as zero."""
    stacked = np.stack(logs)
    stacked = np.where(np.isfinite(stacked), stacked, -np.inf)
    return logsumexp(stacked, axis=0) - np.log(len(stacked))


def flows(train: np.ndarray, seed: int) -> Fitted:
    """Fit a mixture of two spline flows and two masked autoregressive flows with equal weights."""
    kinds = ("NSF", "NSF", "MAF", "MAF")
    fitted = [train_flow(kind, train, 100 * seed + i) for i, kind in enumerate(kinds)]
    return Scorer(lambda X: mean_density([flow_logpdf(flow, X) for flow in fitted]))


METHODS: dict[str, Method] = {
    "ROME": ours("ROME"),
    "ManifoldParzen": ours("ManifoldParzen"),
    "VineDensity": ours("VineDensity"),
    "KernelDensityCV": ours("KernelDensityCV"),
    "GMM-BIC": ours("GaussianMixtureBIC", seeded=True, max_components=20),
    "GMM-CV": gmm_cv,
    "DP-t": dp_student,
    "gaussian_kde": ours("GaussianKDE"),
    "flows": flows,
    "AutoROME": auto_rome,
}
