# The CUDA module, plimsoll_cuda.so beside the program: kernels, and the host side of a GPU. It is loaded where a run asks
# for a GPU, and takes all else from the program that loads it, which exports its symbols for that. It takes a third of the
# build, so it is part of it only where a driver is installed, or with -D PLIMSOLL_CUDA=ON; elsewhere its targets are built by
# name.

# The driver's own library: toolkits have a stub of another name.
find_library(PLIMSOLL_CUDA_DRIVER NAMES libcuda.so.1)
mark_as_advanced(PLIMSOLL_CUDA_DRIVER)
if(PLIMSOLL_CUDA_DRIVER)
  set(driver ON)
else()
  set(driver OFF)
endif()
option(PLIMSOLL_CUDA "Build the CUDA module with everything else; by default where a driver is installed" ${driver})

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "No nvcc: built without the CUDA module, --device cuda will be refused (E-CUDA-LOAD)")
  return()
endif()

enable_language(CUDA)
find_package(CUDAToolkit 13)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cublasLt)
  message(STATUS "No toolkit of CUDA 13 with cuBLASLt: built without the CUDA module")
  return()
endif()
# CMake 3.25 does not know the option.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)

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
          # Local memory is the driver's to set aside, for every thread that can be resident.
          $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-warn-spills,-warn-lmem-usage$<$<BOOL:${PLIMSOLL_WERROR}>:,-Werror>>
          $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>
          $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-march=x86-64-v2;-ffp-contract=off>)
target_link_libraries(plimsoll_cuda PRIVATE CUDA::cublasLt)
set_target_properties(plimsoll PROPERTIES ENABLE_EXPORTS ON)
if(PLIMSOLL_CUDA)
  add_dependencies(plimsoll plimsoll_cuda)
else()
  set_target_properties(plimsoll_cuda PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()
