"""Reputation and spending: how much of each site may queue, and when (STAR and BEAST over the drums of sites)."""

from budgets.beast import RECORD, Quotas
from budgets.ledger import Ledger, LedgerError
from budgets.sites import Rotation, SiteRecord, Sites
from budgets.star import BudgetParams, Histogram, Star
from budgets.worth import Worth

__all__ = [
    "RECORD", "BudgetParams", "Histogram", "Ledger", "LedgerError", "Quotas", "Rotation", "SiteRecord", "Sites", "Star",
    "Worth",
]  # fmt: skip
