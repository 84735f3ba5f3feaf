#include "plan/machine.h"

namespace plimsoll {

std::vector<ReserveItem> reserve_items(const Machine& machine, int primitives, std::size_t steps, Bytes arena) {
  const ReserveModel& model = machine.reserve;
  return {{"code and libraries", model.code, "measured"},
          {"generated kernels", model.per_primitive * primitives, "counted"},
          {"graph and program", model.per_step * static_cast<std::int64_t>(steps), "counted"},
          {"threads", model.threads, "measured"},
          {"page rounding of the arena", align_up(arena, kPage) - arena, "counted"},
          {"counter slack", model.slack, "bound"}};
}

Bytes total(const std::vector<ReserveItem>& items) {
  Bytes sum;
  for (const ReserveItem& item : items) sum += item.bytes;
  return sum;
}

}  // namespace plimsoll
