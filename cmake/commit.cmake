# Writes OUTPUT, a header with the commit of the sources in SOURCE; empty where they are no repository. Each build runs it; an
# equal file stays as it is. "-dirty" marks changed files.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define PLIMSOLL_COMMIT \"${commit}\"\n")
