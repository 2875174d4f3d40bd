"""The dashboards, one module for each."""

from grafana.boards import limit, overview, spark, topic, worker
from grafana.questions import Board

BOARDS: tuple[Board, ...] = (overview.BOARD, limit.BOARD, topic.BOARD, spark.BOARD, worker.BOARD)
