"""Reputation and spending: how much of each site may queue, and when (STAR and BEAST over the drums of sites).

star.py       STAR: budgets from in-degrees
worth.py      what else makes a budget: yields, floors, support
beast.py      BEAST: in which queue a URL waits
sites.py      the drums of sites and pairs, merged and rotated
deferred.py   QF: URLs beyond their sites' budgets
outlet.py     where the rows of a merge go
ledger.py     every URL in one class (I1)
"""

from budgets.beast import RECORD, Quotas
from budgets.ledger import Ledger, LedgerError
from budgets.sites import Rotation, SiteRecord, Sites
from budgets.star import BudgetParams, Histogram, Star
from budgets.worth import Worth

__all__ = [
    "RECORD", "BudgetParams", "Histogram", "Ledger", "LedgerError", "Quotas", "Rotation", "SiteRecord", "Sites", "Star",
    "Worth",
]  # fmt: skip
