"""
Five million rows in Parquet files
==================================

For engineers. Fit a nu-SVM to a folder of Parquet files that is read block by block: the memory holds one
block and the rows near the margin, and the certificate covers every row. Set `ROWS=5000000` in the
environment for the full size (0.4 GB on disk).
"""

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ucm

ROWS, FILES = int(os.environ.get("ROWS", "60000")), 6
names = [f"x{j}" for j in range(20)]
folder = tempfile.TemporaryDirectory()
for part in range(FILES):
    rng = np.random.default_rng(part)
    y = np.where(rng.random(ROWS // FILES) < 0.4, "click", "none")
    X = rng.standard_normal((y.size, 20)).astype(np.float32)
    X[:, :5] += 0.8 * (y == "click")[:, None]
    table = pa.table({**dict(zip(names, X.T)), "label": y})
    pq.write_table(table, Path(folder.name) / f"part-{part}.parquet")

# %%
# Fit, with a certificate over all rows
# -------------------------------------
rows = ucm.open_rows(folder.name, "label")
classifier = ucm.Classifier(ucm.models.nu_svm(0.6)).fit(rows)
solution = classifier.solution_
print(solution.certificate)
print(f"{solution.stats.reads} reads of all rows, accuracy {classifier.score(rows):.4f}")

# %%
# Choose the size
# ---------------
# All values share the folds, and one pass validates them.
sizes = [0.55, 0.65, 0.75]
search = ucm.ClassifierCV(classifier, param_range=sizes, cv=3).fit(rows)
print(search.best_params_)

fig, ax = plt.subplots()
ax.plot(sizes, search.cv_results_["mean_test_score"], "o-")
ax.set(xlabel="nu", ylabel="accuracy on the left-out fold")
folder.cleanup()
plt.show()
