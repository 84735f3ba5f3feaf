# The CUDA module, plimsoll_cuda.so beside the program: kernels, and the host side of a GPU. It is loaded where a run asks
# for a GPU, and takes all else from the program that loads it, which exports its symbols for that. It takes a third of the
# processor time of a build. With PLIMSOLL_CUDA=auto a build makes it where a GPU driver is installed, with on everywhere, or
# the error names the missing part. Elsewhere a build with tests has its targets for the test cuda.module alone.

# The cache of an older build may have a switch of this name.
get_property(type CACHE PLIMSOLL_CUDA PROPERTY TYPE)
if(type STREQUAL BOOL)
  unset(PLIMSOLL_CUDA CACHE)
endif()
set(PLIMSOLL_CUDA auto CACHE STRING "Build the CUDA module: auto (where a GPU driver is installed), on or off")
set_property(CACHE PLIMSOLL_CUDA PROPERTY STRINGS auto on off)
string(TOLOWER "${PLIMSOLL_CUDA}" PLIMSOLL_CUDA)
if(NOT PLIMSOLL_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "PLIMSOLL_CUDA is ${PLIMSOLL_CUDA}; it is auto, on or off")
endif()

# The driver's own library: toolkits have a stub of another name.
find_library(PLIMSOLL_CUDA_DRIVER NAMES libcuda.so.1)
mark_as_advanced(PLIMSOLL_CUDA_DRIVER)
set(PLIMSOLL_CUDA_WANTED OFF)
if(PLIMSOLL_CUDA STREQUAL on OR (PLIMSOLL_CUDA STREQUAL auto AND PLIMSOLL_CUDA_DRIVER))
  set(PLIMSOLL_CUDA_WANTED ON)
endif()

# The missing part of everything that the module includes and links; empty if the module can be built.
set(PLIMSOLL_CUDA_MISSING)
if(PLIMSOLL_CUDA STREQUAL off)
  set(PLIMSOLL_CUDA_MISSING "PLIMSOLL_CUDA=auto or on")
elseif(NOT (PLIMSOLL_CUDA_WANTED OR PLIMSOLL_TESTS))
  set(PLIMSOLL_CUDA_MISSING "a GPU driver, or scripts/build --cuda")
else()
  # The compiler that was named, as check_language finds it.
  if(NOT CUDAToolkit_ROOT AND (CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX}))
    if(CMAKE_CUDA_COMPILER)
      get_filename_component(CUDAToolkit_ROOT "${CMAKE_CUDA_COMPILER}" DIRECTORY)
    else()
      get_filename_component(CUDAToolkit_ROOT "$ENV{CUDACXX}" DIRECTORY)
    endif()
  endif()
  find_package(CUDAToolkit 13 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    foreach(header cuda_runtime.h cuda_fp16.h cublasLt.h nvtx3/nvToolsExtMem.h)
      find_file(PLIMSOLL_CUDA_HEADER ${header} PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH NO_CACHE)
      if(NOT PLIMSOLL_CUDA_HEADER)
        list(APPEND PLIMSOLL_CUDA_MISSING "the header ${header}")
      endif()
      unset(PLIMSOLL_CUDA_HEADER)
    endforeach()
    foreach(library cublasLt cudart_static)
      if(NOT TARGET CUDA::${library})
        list(APPEND PLIMSOLL_CUDA_MISSING "the library ${library}")
      endif()
    endforeach()
  elseif(CUDAToolkit_VERSION AND CUDAToolkit_VERSION VERSION_LESS 13)
    set(PLIMSOLL_CUDA_MISSING "nvcc of CUDA 13 (found ${CUDAToolkit_VERSION})")
  else()
    set(PLIMSOLL_CUDA_MISSING "nvcc of CUDA 13")
  endif()
  if(NOT PLIMSOLL_CUDA_MISSING)
    include(CheckLanguage)
    set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      set(PLIMSOLL_CUDA_MISSING "an nvcc that works with this C++ compiler (${CUDAToolkit_NVCC_EXECUTABLE} does not)")
    endif()
  endif()
endif()
if(PLIMSOLL_CUDA_MISSING)
  list(JOIN PLIMSOLL_CUDA_MISSING ", " PLIMSOLL_CUDA_MISSING)
  if(PLIMSOLL_CUDA STREQUAL on)
    message(FATAL_ERROR "The CUDA module needs ${PLIMSOLL_CUDA_MISSING}")
  endif()
  message(STATUS "Built without the CUDA module, which needs ${PLIMSOLL_CUDA_MISSING}")
  return()
endif()
enable_language(CUDA)
# CMake 3.25 does not know the option.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
# The driver sets local memory aside for every thread that can be resident. An error for the test cuda.module; another nvcc may
# need some.
set(PLIMSOLL_PTXAS -Xptxas=-warn-spills,-warn-lmem-usage)
if(PLIMSOLL_WERROR OR NOT PLIMSOLL_CUDA_WANTED)
  string(APPEND PLIMSOLL_PTXAS ,-Werror)
endif()

file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*.cu ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cu)
add_library(
  plimsoll_cuda MODULE ${kernels} src/device/cuda/driver_memory.cpp src/ops/cuda_kernels.cpp src/run/cuda_device.cpp
                       src/run/cuda_module.cpp)
target_include_directories(plimsoll_cuda PRIVATE src ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(plimsoll_cuda PRIVATE PLIMSOLL_VERSION="${PROJECT_VERSION}")
# For Hopper as it is, and for what comes after it as PTX.
set_target_properties(
  plimsoll_cuda
  PROPERTIES PREFIX ""
             CUDA_ARCHITECTURES "90a-real;90-virtual"
             CUDA_RUNTIME_LIBRARY Static
             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
             BUILD_WITH_INSTALL_RPATH ON
             INSTALL_RPATH "$ORIGIN")
target_compile_options(
  plimsoll_cuda
  PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda>
          $<$<COMPILE_LANGUAGE:CUDA>:${PLIMSOLL_PTXAS}>
          $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>
          $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-march=x86-64-v2;-ffp-contract=off>)
target_link_libraries(plimsoll_cuda PRIVATE CUDA::cublasLt)
if(PLIMSOLL_CUDA_WANTED)
  add_dependencies(plimsoll plimsoll_cuda)
else()
  set_target_properties(plimsoll_cuda PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()
