# How everything is compiled: the language, the warnings, the instruction set, the linker. One interface target,
# plimsoll_options, which every target of the project links.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(PLIMSOLL_CCACHE ccache)
if(PLIMSOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache caches sources with precompiled headers under these conditions alone.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${PLIMSOLL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${PLIMSOLL_CCACHE})
endif()

add_library(plimsoll_options INTERFACE)
target_include_directories(plimsoll_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(plimsoll_options INTERFACE PLIMSOLL_VERSION="${PROJECT_VERSION}")

target_compile_options(
  plimsoll_options
  INTERFACE -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Wundef -Wpointer-arith -Wcast-align
            # Designated initializers name what they set; the rest has defaults.
            -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(plimsoll_options INTERFACE -Wshadow=local -Wduplicated-cond -Wlogical-op)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms on std::string + std::string (GCC bug 105651) and on vectors of a constant size (105329).
    target_compile_options(plimsoll_options INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
  endif()
endif()
if(PLIMSOLL_WERROR)
  target_compile_options(plimsoll_options INTERFACE -Werror)
endif()

# The bits of a result are part of the promise: the compiler fuses no multiply with an add and reorders no sum.
target_compile_options(plimsoll_options INTERFACE -ffp-contract=off -fno-math-errno)

# The baseline is what every x86-64 processor since about 2009 has. Kernels that gain from more are compiled for several
# instruction sets and chosen when the program starts (Highway).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(plimsoll_options INTERFACE -march=x86-64-v2)
endif()

if(PLIMSOLL_STD_THREADS)
  target_compile_definitions(plimsoll_options INTERFACE PLIMSOLL_STD_THREADS)
endif()

if(PLIMSOLL_SANITIZE)
  target_compile_options(plimsoll_options INTERFACE -fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize-recover=all
                                                    -fno-omit-frame-pointer)
  target_link_options(plimsoll_options INTERFACE -fsanitize=${PLIMSOLL_SANITIZE})
endif()

find_program(PLIMSOLL_MOLD mold)
if(PLIMSOLL_MOLD AND (CMAKE_CXX_COMPILER_ID MATCHES Clang OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1))
  target_link_options(plimsoll_options INTERFACE -fuse-ld=mold)
endif()
# A library that nothing calls is not loaded: its pages would count against the budget.
target_link_options(plimsoll_options INTERFACE -Wl,--as-needed)

# The id of the headers that program and CUDA module share. The program refuses a module of other headers.
file(GLOB_RECURSE headers ${PROJECT_SOURCE_DIR}/src/*.h)
list(SORT headers)
set(interface "${PROJECT_VERSION}")
foreach(header IN LISTS headers)
  file(SHA256 ${header} hash)
  string(APPEND interface ${hash})
endforeach()
string(SHA256 interface "${interface}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/interface_id.h CONTENT "#define PLIMSOLL_INTERFACE \"${interface}\"\n")
target_include_directories(plimsoll_options INTERFACE ${PROJECT_BINARY_DIR}/generated)
