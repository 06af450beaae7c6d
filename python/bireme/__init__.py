"""Bireme: distributed training for recommender and dense models, with Paddle's API."""
