// The data of a configuration: what it asks for, assumptions about missing files, and the opened files. Opening may tokenise or
// unpack, which takes memory of its own; child processes do it where this matters.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "config/config.h"
#include "data/data_kinds.h"
#include "models/pixel_norm.h"

namespace plimsoll {

const DataKind& data_kind(const Config& config);

// `cache`: folder for files made from the data, empty if nothing is kept; `elsewhere`: the folder for them if the cache cannot be
// written.
DataRequest data_request(const Config& config, const std::filesystem::path& cache = {},
                         const std::filesystem::path& elsewhere = {});
// The reading of a training (`augments`) or of an evaluation.
Reading reading_of(const Config& config, bool augments = false);

// The normalisation of pixels: that of the configuration, else that of the folder of the weights. Absent for tokens.
std::optional<PixelNorm> pixels_of(const Config& config);

// Empty if every file exists. A file that exists but cannot be opened is not listed.
std::vector<AssumedData> assume_missing_data(const Config& config);
// Data that are there, and that planning alone does not prepare; empty if they are prepared.
std::vector<AssumedData> unprepared_data(const Config& config, const std::filesystem::path& cache);

DataFiles open_data(const Config& config, const std::filesystem::path& cache, const std::filesystem::path& elsewhere = {});

// The configuration with the kind of tokens that the data have, which is a guess before they are opened. Unchanged for a model of
// a folder.
Config with_tokens_of(Config config, const DataFiles& data);

// The training data without the held-out share, and the validation data, or the training data if there are none.
std::unique_ptr<DataSet> open_training_in_child(const Config& config, const std::filesystem::path& cache);
std::unique_ptr<DataSet> open_validation_in_child(const Config& config, const std::filesystem::path& cache);

}  // namespace plimsoll
