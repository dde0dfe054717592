"""The record index built, verified, sampled and measured."""
