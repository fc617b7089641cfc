"""Store what sentence-transformers makes of a few sentences with the packaged model, for `embedding/write.py`.

    python -m scripts.reference_vectors

Needs the extra `torch`. Run it when the sentences or the packaged model change; the result belongs into the commit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import channelmem.embedding
from channelmem.embedding.export import load_reference
from channelmem.embedding.model import as_directory, find_source
from channelmem.embedding.write import SENTENCES, STORED
from channelmem.settings import Settings

FILE = Path(channelmem.embedding.__file__).with_name(STORED)


def main() -> None:
    settings = Settings(_env_file=None)
    reference = load_reference(as_directory(find_source(settings), settings.cache_dir))
    vectors = np.asarray(reference.encode(list(SENTENCES), normalize_embeddings=True), dtype=np.float32)
    np.savez(FILE, vectors=vectors)
    print(f"{len(vectors)} vectors of {vectors.shape[1]} numbers: {FILE}, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
