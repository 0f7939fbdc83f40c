"""Makes the small HDF5 files of this folder that test_hostile.cpp reads: valid for the library, but nothing that our
readers may trust. Made once with h5py 3 and kept, so that the tests need no Python. Run: python make_hostile.py
"""
import os

import h5py
import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))

with h5py.File("links.h5", "w", libver="v110") as f:
    f["external"] = h5py.ExternalLink("foreign.h5", "/big_endian")
    f["soft"] = h5py.SoftLink("/circle")
    f["circle"] = h5py.SoftLink("/soft")
    layout = h5py.VirtualLayout(shape=(4,), dtype="i4")
    layout[:] = h5py.VirtualSource("foreign.h5", "big_endian", shape=(4,))
    f.create_virtual_dataset("virtual", layout)
    f.create_dataset("elsewhere", shape=(4,), dtype="i4", external=[("foreign.h5", 0, 16)])

with h5py.File("claims.h5", "w", libver="v110") as f:
    # Nothing is stored before the first write, so these cost no space and read as zeros.
    f.create_dataset("contiguous", shape=(2**50,), dtype="i4")
    f.create_dataset("chunked", shape=(2**45, 2**5), dtype="i4", chunks=(1024, 32), compression="gzip")
    f.create_dataset("overflow", shape=(2**40, 2**20), dtype="u1", chunks=(1024, 32))
    f.create_dataset("wide_text", shape=(2**20,), dtype="S65536")

with h5py.File("foreign.h5", "w", libver="v110") as f:
    f["big_endian"] = np.array([1, 2, 3, -4], dtype=">i4")
    f["unsigned"] = np.array([2**63], dtype="u8")
    f["short"] = np.array([-7, 7], dtype="i2")
    f["half"] = np.array([0.5], dtype="f2")
    f["compound"] = np.zeros(2, dtype=[("a", "i4"), ("b", "f4")])
    f["truth"] = np.array([True, False])
    f["null"] = h5py.Empty("i4")
    f["scalar"] = np.int64(5)
    f.create_dataset("filter", data=np.arange(100), chunks=(50,), compression="lzf")
    f.create_group("group")
    f.attrs["bytes"] = np.bytes_(b"fixed")
    f.attrs["null"] = h5py.Empty("S4")
    f.attrs["matrix"] = np.ones((2, 2))
