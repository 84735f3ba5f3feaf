# Every library that Plimsoll uses, found on the system, never fetched, and why. scripts/install_packages names the Debian
# packages. plimsoll_dependency(NAME TARGETS target... HEADERS prefix... IN_HEADERS prefix...) says which includes belong to it:
# scripts/check_floors reads these lines and refuses the includes in libraries that do not list NAME under EXTERNAL, and in
# headers of ours, but for those of IN_HEADERS.

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)

function(plimsoll_dependency name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "TARGETS;HEADERS;IN_HEADERS")
  add_library(plimsoll_external_${name} INTERFACE)
  target_link_libraries(plimsoll_external_${name} INTERFACE ${arg_TARGETS})
endfunction()

# fmt: the text of messages and reports.
find_package(fmt 9 REQUIRED)
plimsoll_dependency(fmt TARGETS fmt::fmt HEADERS fmt/)

# nlohmann-json: reads Hugging Face's config.json, writes plan.json and run.json.
find_package(nlohmann_json 3.11 REQUIRED)
plimsoll_dependency(json TARGETS nlohmann_json::nlohmann_json HEADERS nlohmann/ IN_HEADERS nlohmann/json_fwd.hpp)

# toml++: reads the configuration and machine files.
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
plimsoll_dependency(toml TARGETS PkgConfig::tomlplusplus HEADERS toml++/ toml.hpp)

# CLI11: the command line.
find_package(CLI11 2 REQUIRED)
plimsoll_dependency(cli11 TARGETS CLI11::CLI11 HEADERS CLI/)

# PCRE2: the patterns by which tokenizers split text (they need Unicode classes and lookahead).
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
plimsoll_dependency(pcre2 TARGETS PkgConfig::pcre2 HEADERS pcre2.h)

# utf8proc: the normal forms, categories and cases of characters, by which tokenizers change text.
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
plimsoll_dependency(utf8proc TARGETS PkgConfig::utf8proc HEADERS utf8proc.h)

# xxHash: identity of graphs, plans and data, checksums of saved weights.
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
plimsoll_dependency(xxhash TARGETS PkgConfig::xxhash HEADERS xxhash.h)
# It marks functions always_inline that are called through pointers; GCC does not follow those where it optimises lightly (-Og).
target_compile_definitions(plimsoll_external_xxhash INTERFACE $<$<CONFIG:Debug>:XXH_NO_INLINE_HINTS=1>)

# zlib: unpacks gzip files, in which arrays of images come.
find_package(ZLIB REQUIRED)
plimsoll_dependency(zlib TARGETS ZLIB::ZLIB HEADERS zlib.h)

# OpenMP: the team of threads behind device/cpu/parallel, shared with oneDNN. ThreadSanitizer does not understand it.
if(PLIMSOLL_STD_THREADS)
  plimsoll_dependency(openmp HEADERS omp.h)
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  plimsoll_dependency(openmp TARGETS OpenMP::OpenMP_CXX HEADERS omp.h)
endif()

# Threads: prefetching of data, and the back end without OpenMP.
find_package(Threads REQUIRED)
plimsoll_dependency(threads TARGETS Threads::Threads)

# oneDNN: matrix products on the CPU; without it, and where threads are not OpenMP's, they run on our own kernels. Its CMake
# package asks for the OpenCL headers, which are not needed here.
if(PLIMSOLL_ONEDNN AND NOT PLIMSOLL_STD_THREADS)
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  plimsoll_dependency(dnnl TARGETS ${DNNL_LIBRARY} HEADERS dnnl oneapi/dnnl/)
  target_include_directories(plimsoll_external_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
  target_compile_definitions(plimsoll_external_dnnl INTERFACE PLIMSOLL_ONEDNN)
else()
  plimsoll_dependency(dnnl HEADERS dnnl oneapi/dnnl/)
endif()

# Highway: our own kernels, written once and compiled for SSE4 (no AES needed), AVX2 and AVX-512, chosen when the program
# starts. Its *-inl.h files are written to be included by other such files, so they are allowed in headers.
find_package(hwy REQUIRED)
plimsoll_dependency(hwy TARGETS hwy::hwy HEADERS hwy/ IN_HEADERS hwy/)
target_compile_definitions(plimsoll_external_hwy INTERFACE HWY_DISABLE_PCLMUL_AES)
# The vectors of SVE have no size at compile time, so they can be no members and no arrays, which our kernels keep them in. ARM
# processors that have it run NEON.
target_compile_definitions(plimsoll_external_hwy
                           INTERFACE "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")

# liburing: transfers to and from the disk tier; optional, without it they run on plain threads.
pkg_check_modules(liburing IMPORTED_TARGET liburing>=2.2)
if(liburing_FOUND)
  plimsoll_dependency(uring TARGETS PkgConfig::liburing HEADERS liburing.h)
  target_compile_definitions(plimsoll_external_uring INTERFACE PLIMSOLL_IO_URING)
else()
  plimsoll_dependency(uring HEADERS liburing.h)
endif()

# The dynamic loader: the CUDA module, where a run asks for a GPU.
plimsoll_dependency(dl TARGETS ${CMAKE_DL_LIBS} HEADERS dlfcn.h)

# The header that cmake/options.cmake writes: an id of the headers that program and CUDA module share.
plimsoll_dependency(interface HEADERS interface_id.h)
# The header that cmake/commit.cmake writes.
plimsoll_dependency(commit HEADERS commit.h)

# Open MPI: the messages of processes that train together; optional, in a module of its own.
pkg_check_modules(ompi IMPORTED_TARGET ompi-c>=4.1)
if(ompi_FOUND)
  plimsoll_dependency(mpi TARGETS PkgConfig::ompi HEADERS mpi.h IN_HEADERS mpi.h)
  # Without the bindings for C++, which were removed from MPI.
  target_compile_definitions(plimsoll_external_mpi INTERFACE OMPI_SKIP_MPICXX)
else()
  plimsoll_dependency(mpi HEADERS mpi.h IN_HEADERS mpi.h)
endif()

# CUDA's headers, which only nvcc reads: all else compiles kernels for a GPU over device/cuda/emulation.
plimsoll_dependency(cuda HEADERS cuda_ cublasLt.h IN_HEADERS cuda_)

if(PLIMSOLL_TESTS)
  # GoogleTest: the tests. Python's standard library drives the commands from outside.
  find_package(GTest 1.12 REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()

if(PLIMSOLL_BENCH)
  # Google Benchmark: kernel timings; optional.
  find_package(benchmark QUIET)
endif()
