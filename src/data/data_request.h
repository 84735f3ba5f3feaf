// All that a configuration and its model say about data. Each kind of data reads its own part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/data_paths.h"
#include "data/sample_rules.h"

namespace plimsoll {

// The tokens of the model, and the treatment of text.
struct TokenRequest {
  std::int64_t vocab = 256;               // of the model
  std::filesystem::path vocabulary = {};  // a folder or a GGUF file; may be empty
  std::filesystem::path init = {};        // the weights with which training begins; empty: random ones
  bool own_tokens = false;                // these weights know tokens other than bytes
  std::filesystem::path chat_template = {};
  TrainedTurns turns = TrainedTurns::assistant;
  LongSamples too_long = LongSamples::automatic;
  std::int64_t most_sample_bytes = 0;  // of a sample's JSON
};

// The images of the model, and the treatment of pixels.
struct ImageRequest {
  DataPaths labels = {}, validation_labels = {};  // files of labels beside those of images
  std::int64_t size = 0;                          // pixels of a side that the model takes; 0: any
  std::int64_t channels = 0;                      // of the model; 0: it takes no images
  std::int64_t classes = 0;                       // labels are below it; 0: any
  bool keeps_classes = false;                     // weights fix `classes`; no key changes it
  std::vector<double> mean = {}, std = {};        // by channel, or one for all
  std::int64_t pad_crop = 0;                      // pixels
  bool flip = false;
};

struct DataRequest {
  std::string format = "auto";
  DataPaths train = {}, validation = {};
  double held_out = 0;   // share of the training data for validation, 0 to 1
  std::int64_t row = 1;  // positions of a row
  bool packs = false;    // rows hold several samples
  TokenRequest tokens = {};
  ImageRequest images = {};
  std::filesystem::path cache = {};      // folder for files made from the data; may be empty if nothing is kept
  std::filesystem::path elsewhere = {};  // the folder if the cache cannot be written; empty: none
};

}  // namespace plimsoll
