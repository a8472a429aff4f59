// The .npy format of numpy, versions 1 to 3.
#pragma once

#include "file.hpp"
#include "tensor_file.hpp"

namespace tandem::cli {

FileTensor parse_npy(const InputFile& file);
void format_npy(OutputFile& file, const FileTensor& tensor);

}  // namespace tandem::cli
