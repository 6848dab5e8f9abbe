"""What mbpoll does not ask for: masks, reads with writes, diagnostics, who the controller is. With pymodbus."""
import sys
from pymodbus.client import ModbusTcpClient
from pymodbus.mei_message import ReadDeviceInformationRequest
from pymodbus.register_read_message import ReadWriteMultipleRegistersRequest
from pymodbus.diag_message import ReturnQueryDataRequest

both = ReadWriteMultipleRegistersRequest(read_address=1, read_count=3, write_address=9, write_registers=[7, 8], unit=1)
with ModbusTcpClient(sys.argv[1]) as client:
    for answer in [
        client.read_coils(0, 10, slave=2),
        client.read_discrete_inputs(3, 2, slave=2),
        client.write_coils(5, [True, False, True], slave=2),
        client.mask_write_register(address=4, and_mask=0xF2, or_mask=0x25, unit=1),
        client.execute(both),
        client.execute(ReadDeviceInformationRequest(unit=1)),
        client.execute(ReturnQueryDataRequest(0xA537, unit=1)),
        client.read_holding_registers(190, 60, slave=1),
    ]:
        print(answer)
