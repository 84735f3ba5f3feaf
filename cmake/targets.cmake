# plimsoll_library(NAME [FILES pattern...] [EXCEPT pattern...] [LINKS floor...] [EXTERNAL dependency...])
#
# One static library from the sources below the folder of the CMakeLists.txt that calls it: all of them, or those whose file
# names match a pattern of FILES, less those that match EXCEPT. LINKS are the floors that its sources may include, themselves
# and through each other; EXTERNAL are dependencies of cmake/dependencies.cmake. These lists are the architecture:
# scripts/check_floors reads them from these files. A folder without sources yields no target; links to it are left out. Kernels
# for a GPU (.cu) are compiled as C++ here, over device/cuda/emulation.

function(plimsoll_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;EXCEPT;LINKS;EXTERNAL")
  plimsoll_glob(sources "${arg_FILES}" "${arg_EXCEPT}" .cpp)
  plimsoll_glob(headers "${arg_FILES}" "${arg_EXCEPT}" .h)
  plimsoll_glob(kernels "${arg_FILES}" "${arg_EXCEPT}" .cu)
  if(NOT sources AND NOT headers)
    return()
  endif()

  if(sources)
    add_library(plimsoll_${name} STATIC ${sources} ${kernels} ${headers})
    set(scope PRIVATE)
    if(kernels)
      set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;-Wno-unknown-pragmas")
      set_target_properties(plimsoll_${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)  # only tests run them over the emulation
    endif()
  else()
    add_library(plimsoll_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(plimsoll_${name} ${scope} plimsoll_options)
  foreach(floor IN LISTS arg_LINKS)
    if(TARGET plimsoll_${floor})
      target_link_libraries(plimsoll_${name} ${scope} plimsoll_${floor})
    endif()
  endforeach()
  foreach(dependency IN LISTS arg_EXTERNAL)
    target_link_libraries(plimsoll_${name} ${scope} plimsoll_external_${dependency})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY PLIMSOLL_LIBRARIES plimsoll_${name})
endfunction()

# Sets `result` to the files below the current folder that end in `extension` and whose names pass the two lists of patterns.
function(plimsoll_glob result files except extension)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *${extension})
  set(chosen)
  foreach(path IN LISTS found)
    get_filename_component(file ${path} NAME)
    plimsoll_matches(wanted ${file} "${files}")
    plimsoll_matches(unwanted ${file} "${except}")
    if((wanted OR NOT files) AND NOT unwanted)
      list(APPEND chosen ${path})
    endif()
  endforeach()
  set(${result} ${chosen} PARENT_SCOPE)
endfunction()

# Sets `result` to whether `file` matches one of the patterns, in which * stands for any characters.
function(plimsoll_matches result file patterns)
  set(matches FALSE)
  foreach(pattern IN LISTS patterns)
    string(REPLACE "." "\\." expression "${pattern}")
    string(REPLACE "*" ".*" expression "${expression}")
    if(file MATCHES "^${expression}$")
      set(matches TRUE)
    endif()
  endforeach()
  set(${result} ${matches} PARENT_SCOPE)
endfunction()
