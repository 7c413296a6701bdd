"""Data of training runs: the order in which executables read samples, and the data of
test/Models/training.py.
"""

import numpy as np

STEPS, BATCH, SEQUENCE = 50, 4, 8


def philox(counter, key):
    """Returns the four random numbers of Philox4x32-10."""
    mask = 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & mask, a >> 32 ^ counter[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return counter


def order_of(samples, seed, epoch):
    """Returns the samples of an epoch in the order of a training executable."""
    order = list(range(samples))
    for i in range(samples - 1, 0, -1):
        bits = philox([i, 0, epoch, 0], [seed, 0])
        j = (bits[1] << 32 | bits[0]) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def batch_of(data, step, batch, sequence, seed=0):
    """Returns ids and labels of a step, which counts from 1."""
    samples = (len(data) - 1) // sequence
    positions = range((step - 1) * batch, step * batch)
    rows = [order_of(samples, seed, p // samples)[p % samples] * sequence for p in positions]
    ids = np.array([data[row : row + sequence] for row in rows], np.int64)
    labels = np.array([data[row + 1 : row + sequence + 1] for row in rows], np.int64)
    return ids, labels


def make_data(vocabulary):
    """Returns token ids in which each token often follows from the one before."""
    random = np.random.default_rng(7)
    follower = random.permutation(vocabulary)
    data = [0]
    for _ in range(SEQUENCE * 60):
        data.append(follower[data[-1]] if random.random() < 0.8 else random.integers(vocabulary))
    return np.array(data, np.uint16)


def pick(values):
    """Returns 16 elements, spread evenly."""
    flat = np.asarray(values, np.float64).reshape(-1)
    return flat[np.linspace(0, len(flat) - 1, 16).astype(int)].tolist()
