-- Those that wait while their code has timers of its own: `waking` says so, and a start takes them up.

CREATE INDEX instance_restless ON instance (number) WHERE status = 'waiting' AND waking = 1;
