"""The Spack recipe of bert_hpc. It builds the committed state of the checkout that it is in:

    spack repo add CHECKOUT/modulefiles/spack/spack_repo/bert_hpc
    spack install bert-hpc
    spack install bert-hpc+cuda cuda_arch=90

To build uncommitted changes: spack develop --path CHECKOUT bert-hpc@main, in an environment. In a copy of the recipe
elsewhere, set `git` to the address of the sources.
"""

import pathlib

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass  # Spack before 1.0 has them in spack.package


class BertHpc(CMakePackage, CudaPackage):
    """Trains BERT-class language models on clusters: one MPI program in C++20, from text to a trained model."""

    git = pathlib.Path(__file__).resolve().parents[6].as_uri()

    license("MIT")

    version("main", branch="main")

    variant("openmp", default=True, description="Kokkos kernels use OpenMP's threads (tuned CPU kernels always do)")
    variant("onednn", default=True, when="~cuda", description="Matrix products of CPUs by oneDNN, else by OpenBLAS")
    variant("zstd", default=True, description="Text that is compressed with Zstandard")
    variant("parquet", default=False, description="Parquet files, read with Apache Arrow")
    variant("postprocess", default=False, description="Python packages of postprocess/: tables and pictures")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("git", type="build")

    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10:1.14+mpi")
    depends_on("zlib-api")
    depends_on("tomlplusplus@3", type="build")
    depends_on("nlohmann-json@3", type="build")
    depends_on("utf8proc@2")
    depends_on("zstd@1.4:", when="+zstd")
    depends_on("arrow@14: +parquet+snappy+zlib+zstd", when="+parquet")
    depends_on("catch2@3", type="test")

    depends_on("kokkos@3.4.01:5")
    depends_on("kokkos+openmp", when="+openmp")
    depends_on("kokkos+serial", when="~openmp")
    depends_on("kokkos~cuda", when="~cuda")
    depends_on("onednn@2.6:3 cpu_runtime=omp", when="+onednn")
    depends_on("openblas threads=openmp", when="~cuda~onednn")

    # A Kokkos is built for one GPU architecture, and so is this package in Spack: give one value of cuda_arch.
    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("kokkos@4.7.01:", when="^cuda@13:")
        requires("^kokkos+cuda_lambda", when="^kokkos@:4")
        conflicts("cuda_arch=none", msg="say for which GPUs: cuda_arch=80 is an A100, cuda_arch=90 an H100")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos+cuda cuda_arch={arch}", when=f"cuda_arch={arch}")
            depends_on(f"nccl+cuda cuda_arch={arch}", when=f"cuda_arch={arch}")

    with when("+postprocess"):
        depends_on("python@3.9:", type="run")
        depends_on("py-h5py", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-matplotlib@3.6:", type="run")

    conflicts("%gcc@:10", msg="C++20 is needed: GCC 11 or newer")

    sanity_check_is_file = [join_path("bin", name) for name in ("bert_hpc", "bert_hpc_prep", "bert_hpc_score")]

    def cmake_args(self):
        args = [
            self.define("BERT_HPC_TESTS", self.run_tests),
            self.define_from_variant("BERT_HPC_CUDA", "cuda"),
            self.define_from_variant("BERT_HPC_PARQUET", "parquet"),
            # Spack's compiler wrappers set the target processor.
            self.define("BERT_HPC_ARCH", ""),
        ]
        if self.spec.satisfies("~zstd"):
            # Do not use a libzstd of the system.
            args.append(self.define("zstd_LIBRARY", ""))
        if self.spec.satisfies("+cuda"):
            architectures = [f"{arch}-real" for arch in self.spec.variants["cuda_arch"].value]
            args.append(self.define("BERT_HPC_CUDA_ARCHITECTURES", architectures))
        elif self.spec.satisfies("~onednn"):
            # Do not use a oneDNN of the system.
            args.append(self.define("CMAKE_DISABLE_FIND_PACKAGE_dnnl", True))
            args.append(self.define("onednn_LIBRARY", ""))
        return args

    def check(self):
        # The other tests start MPI and Slurm and take long: tests/run.sh in a checkout runs them all.
        with working_dir(self.build_directory):
            Executable(self.spec["cmake"].prefix.bin.ctest)("-L", "unit", "--output-on-failure")

    def setup_run_environment(self, env):
        env.set("BERT_HPC_ROOT", self.prefix)

    def test_version(self):
        """the programs start and print their version"""
        for name in ("bert_hpc", "bert_hpc_prep", "bert_hpc_score"):
            program = which(join_path(self.prefix.bin, name), required=True)
            assert name in program("--version", output=str.split, error=str.split)
