"""Texts to vectors: which model, its export to ONNX, and the embedder that never blocks the event loop."""
