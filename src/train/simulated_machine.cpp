#include "train/simulated_machine.h"

namespace plimsoll {

MachineRecord simulated_machine(int threads) {
  MachineRecord record;
  Machine& machine = record.machine;
  machine.name = "sim";
  machine.instruction_set = "none";
  machine.threads = threads;
  machine.tiers = {{"ram", kGiB * 16}};
  machine.flops_per_second = 50e9 * threads;
  machine.bytes_per_second = 10e9;
  machine.step_seconds = 2e-6;
  machine.reserve = {kMiB * 16, kKiB * 128, kKiB * 4, kMiB * 2 * (threads + 1), kMiB};
  machine.hash = machine_hash(machine);
  record.build = "sim";
  record.copy_bytes_per_second = 10e9;
  return record;
}

}  // namespace plimsoll
