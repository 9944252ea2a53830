"""The page Workers: queues, workers and the leader."""
