// The records of a run as event files of TensorBoard, one for each part of the run (run_parts.h): the first in the folder itself,
// part N in the folder N there. A repeated export adds what is new. Updates that a resume has trained again replace the former.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "records/line_reader.h"
#include "records/run_reader.h"

namespace plimsoll {

class TensorboardExport {
 public:
  // E-IO-WRITE.
  TensorboardExport(const Run& run, std::filesystem::path folder);
  ~TensorboardExport();

  // Brings the files up to the lines of the run.
  void update();

 private:
  class Part;

  void add_all();
  Part& part(int number);

  std::filesystem::path run_, folder_;
  std::string name_;  // of the files
  double begun_ = 0;
  LineFollower metrics_, evaluations_;
  std::size_t known_parts_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace plimsoll
