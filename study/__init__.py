"""The study of the ROME paper, rerun beside its published figures: ``python -m study``.

==================  ==========================================================
``catalogue``       estimators by name, published figures
``plan``            distributions, estimators, metrics and runs to measure
``store``           results, one row for every figure
``runs``            measures a plan in parallel
``tables``          tables of ours beside the published figures
``findings``        errors of the study, with measurements
``report``          agreement, and the page
``panels``          layout of figures
``fit_pictures``    figures of data, samples, densities and clusters
``sweeps``          figures of ROME with other numbers of neighbors
``boxes``           box plots of the metrics
``figures``         all figures
``command``         the command line
``forking_paths``   loads the annotation files of Forking Paths
==================  ==========================================================
"""

from .catalogue import Published, published
from .plan import PRESETS, Cell, Plan
from .runs import run
from .store import Row, Store

__all__ = ["PRESETS", "Cell", "Plan", "Published", "Row", "Store", "published", "run"]
