"""Everything that is learned from outcomes after fitting, for one router."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict

from sqlalchemy import func, select

from ...core.confidence import Confidence
from ...core.database import Database
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import outcomes, rounds, runs
from ...core.errors import BadInput, NotEnoughLabels
from ...core.protocols import Clock, Fingerprint
from ...core.text import said
from ...core.turn import TurnKind
from ...memory.episode_store import EpisodeStore
from ...probes.tiers import FEWEST
from .episode_writer import EpisodeWriter
from .learned_head import LearnedHead, LearnedHeads
from .online_store import Key, OnlineStore
from .relearn import identity_of, logged_rows, relearn

logger = logging.getLogger("demur")

_FEWEST = 2 * FEWEST
"""Graded calls without which no head can be fitted: so many right and as many wrong."""


class Learning:
    """Online calibration, episodes and learned heads, kept up with the outcomes.

    Args:
        online: apply online calibration.
        min_outcomes: of a key, before online calibration acts.
        refit_growth: fit a head on the log again when its graded calls have grown by this share; 0: only when asked.
        min_labels: graded rows that a learned head must rest on to be used.
        artefact_of: the artefact's id of a task, or None.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        online: bool = True,
        min_outcomes: int = 20,
        refit_growth: float = 0.25,
        min_labels: int = 20,
        artefact_of: Callable[[str], str | None] = lambda task: None,
    ) -> None:
        self.database = database
        self.clock = clock
        self.online = OnlineStore(database, clock, min_outcomes=min_outcomes) if online else None
        self.episodes = EpisodeWriter(EpisodeStore(database, clock), database, clock)
        self.heads = LearnedHeads(database, clock)
        self.refit_growth = refit_growth
        self.min_labels = min_labels
        self._artefact_of = artefact_of
        self._outcomes = OutcomeLog(database)
        self._caught_up = -1
        self._busy = threading.Lock()
        self._look_again = _FEWEST
        self._tried: dict[tuple[str, str, str, str], int] = {}

    def catch_up(self) -> int:
        """Take in outcomes that are new. Returns how many changes there were."""
        newest = self._outcomes.last_change()
        if newest == self._caught_up:
            return 0
        taken = self.episodes.catch_up()
        if self.online is not None:
            taken = max(taken, self.online.catch_up())
        self._caught_up = newest
        return taken

    def head(self, tenant: str, task: str, arm: str, identity: str | None) -> LearnedHead | None:
        """The learned head that judges this model's responses, or None: then the artefact does.

        One that was fitted beside another artefact is not used: the scores it reads are not those it was fitted on.
        Nor is one that cannot be read back, until it is fitted again.
        """
        if identity is None:
            return None
        found = self._stored(tenant, task, arm, identity)
        if found is None or not found.in_use or found.head.labels < self.min_labels:
            return None
        return found if found.artefact_id == self._artefact_of(task) else None

    def adjusted(
        self, tenant: str, task: str, turn: TurnKind, confidence: Confidence, calibrator: str | None = None
    ) -> Confidence:
        """The confidence, with what outcomes taught about its head since."""
        if self.online is None or confidence.is_prior:
            return confidence
        return self.online.adjusted(Key(tenant, task, calibrator or confidence.calibrator, turn), confidence)

    def relearn(
        self, task: str | None = None, tenant: str | None = None, *, only_due: bool = False
    ) -> list[LearnedHead]:
        """Fit heads on the log, for everything that has enough graded calls; tasks that lack them are left out.

        Waits for a fit that is going on in the background of this process.

        Args:
            only_due: only where the graded calls have grown by `refit_growth` since the last fit.
        """
        with self._busy:
            return self._relearn_all(task, tenant, only_due=only_due)

    def _relearn_all(self, task: str | None, tenant: str | None, *, only_due: bool) -> list[LearnedHead]:
        self.catch_up()
        fitted = []
        for each in self._places(task, tenant):
            found = self._relearn(*each, only_due=only_due)
            if found is not None:
                fitted.append(found)
        return fitted

    def forget_heads(self) -> None:
        """Drop learned heads, because outcomes were taken back; until they are fitted again the artefact judges."""
        with self._busy:
            self.heads.forget()
            self._tried.clear()

    def keep_up(self) -> int:
        """Take in what is new, and where there was something see in the background whether a head is due."""
        taken = self.catch_up()
        if taken:
            self.relearn_in_background()
        return taken

    def rebuild(self) -> int:
        """Learn everything but heads again from the log. Returns how many changes of outcomes there were."""
        taken = self.episodes.rebuild()
        return taken if self.online is None else max(taken, self.online.rebuild())

    def relearn_in_background(self) -> threading.Thread | None:
        """Fit what is due in a daemon thread; None where one is at it already, or too little is new to look."""
        if self.refit_growth <= 0.0:
            return None
        newest = self._outcomes.last_change()
        if newest < self._look_again or not self._busy.acquire(blocking=False):
            return None
        # Looking reads every graded call: once in 200 times as many changes is often enough to see a task grow.
        self._look_again = newest + max(newest // 200, 1)

        def work() -> None:
            try:
                self._relearn_all(None, None, only_due=True)
            except Exception as error:  # noqa: BLE001 - nobody waits for this thread who could be told
                logger.warning("learning from the log failed: %s", said(error))
            finally:
                self._busy.release()

        thread = threading.Thread(target=work, name="demur-learning", daemon=True)
        thread.start()
        return thread

    def _stored(self, tenant: str, task: str, arm: str, identity: str) -> LearnedHead | None:
        try:
            return self.heads.get(tenant, task, arm, identity)
        except BadInput as error:
            logger.warning("%s", error)
            return None

    def _relearn(self, tenant: str, task: str, arm: str, identity: str, *, only_due: bool) -> LearnedHead | None:
        place = (tenant, task, arm, identity)
        if only_due and not self._is_due(*place):
            return None
        artefact_id = self._artefact_of(task)
        logged = logged_rows(self.database, *place, artefact_id)
        self._tried[place] = logged.graded
        try:
            found = relearn(
                logged,
                tenant=tenant,
                task=task,
                arm=arm,
                identity=identity,
                artefact_id=artefact_id,
                clock=self.clock,
            )
        except NotEnoughLabels as error:
            logger.info("task %s is not learned from its log yet: %s", task, error)
            return None
        return found if self.heads.put(found) else None

    def _is_due(self, tenant: str, task: str, arm: str, identity: str) -> bool:
        known = self._stored(tenant, task, arm, identity)
        before = max(known.graded if known is not None else 0, self._tried.get((tenant, task, arm, identity), 0))
        now = self._graded(tenant, task, arm)
        return now >= max(self.min_labels, _FEWEST) and now >= before * (1.0 + self.refit_growth)

    def _graded(self, tenant: str, task: str, arm: str) -> int:
        with self.database.reading() as connection:
            query = (
                select(func.count(outcomes.c.response_id.distinct()))
                .join(rounds, rounds.c.response_id == outcomes.c.response_id)
                .join(runs, runs.c.id == rounds.c.run_id)
                .where(runs.c.tenant == tenant, runs.c.task == task, rounds.c.arm == arm)
                .where(outcomes.c.retracted_at.is_(None))
            )
            return int(connection.execute(query).scalar_one())

    def _places(self, task: str | None, tenant: str | None) -> list[tuple[str, str, str, str]]:
        """Tenant, task, arm and model of everything that was graded."""
        query = (
            select(runs.c.tenant, runs.c.task, rounds.c.arm, rounds.c.fingerprint)
            .join(runs, runs.c.id == rounds.c.run_id)
            .where(rounds.c.response_id.in_(select(outcomes.c.response_id)))
            .distinct()
        )
        if task is not None:
            query = query.where(runs.c.task == task)
        if tenant is not None:
            query = query.where(runs.c.tenant == tenant)
        with self.database.reading() as connection:
            rows = connection.execute(query).all()
        found = {(row[0], row[1], row[2], identity_of(row[3])) for row in rows}
        return sorted((tenant, task, arm, identity) for tenant, task, arm, identity in found if identity is not None)


def fingerprint_text(fingerprint: Fingerprint) -> str:
    """A fingerprint as it is stored with a round."""
    return json.dumps(asdict(fingerprint), sort_keys=True)
