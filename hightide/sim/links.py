"""What lies between two hosts: delay, loss, and cuts, each direction by itself."""

from random import Random

DELAY_SECONDS = (0.0001, 0.001)  # within one data centre
RETRANSMISSION_SECONDS = 0.2  # TCP's shortest time-out: a lost packet is a late one


class Link:
    """One direction between two hosts."""

    __slots__ = ("_random", "delay_seconds", "delivered", "held_seconds", "is_cut", "loss")

    def __init__(self, random: Random) -> None:
        self.delay_seconds = DELAY_SECONDS
        self.loss = 0.0
        self.is_cut = False
        self.delivered = 0
        """Pieces that arrived so far."""
        self.held_seconds: dict[int, float] = {}
        """Requests of these kinds (api keys) take so much longer, and all behind them on their connection."""
        self._random = random

    def delay(self) -> float:
        """How long the next packet takes. TCP repeats what is lost, twice as late each time."""
        low, high = self.delay_seconds
        seconds = low + (high - low) * self._random.random()
        wait = RETRANSMISSION_SECONDS
        while self.loss and self._random.random() < self.loss:
            seconds += wait
            wait *= 2
        return seconds

    def heal(self) -> None:
        """A good link again."""
        self.delay_seconds = DELAY_SECONDS
        self.loss = 0.0
        self.is_cut = False
        self.held_seconds = {}
