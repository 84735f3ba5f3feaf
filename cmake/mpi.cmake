# The MPI module, plimsoll_mpi.so beside the program: it is loaded by processes that were started as ranks of one training, and
# takes all but MPI from the program that loads it.
if(NOT (PLIMSOLL_MPI AND ompi_FOUND AND TARGET plimsoll))
  message(STATUS "Built without the MPI module, which needs Open MPI (libopenmpi-dev)")
  return()
endif()
add_library(plimsoll_mpi MODULE $<TARGET_OBJECTS:plimsoll_collective_mpi>)
set_target_properties(plimsoll_mpi PROPERTIES PREFIX "" LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_link_libraries(plimsoll_mpi PRIVATE plimsoll_options plimsoll_external_mpi)
add_dependencies(plimsoll plimsoll_mpi)
