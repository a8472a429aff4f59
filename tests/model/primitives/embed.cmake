# Writes OUTPUT: the primitive kernels as one text, for NVRTC. What they include of each other is put in its place.
file(READ ${FOLDER}/primitives.hpp plain)
file(READ ${FOLDER}/primitives.cuh bodies)
file(READ ${FOLDER}/entries.cu entries)
set(source "${plain}${bodies}${entries}")
string(REGEX REPLACE "#include \"model/[^\n]*\n" "" source "${source}")
string(REPLACE "#pragma once\n" "" source "${source}")
file(WRITE ${OUTPUT} "// Written by embed.cmake.\n#pragma once\n#include <string_view>\n\nnamespace tandem::primitives {\n\ninline constexpr std::string_view kPrimitivesSource = R\"TANDEM(${source})TANDEM\";\n\n}  // namespace tandem::primitives\n")
