"""A controller by pymodbus that logs what is asked of it: port, transaction, unit, function, address, count, exception."""
import asyncio, logging, sys
from pymodbus.datastore import ModbusSequentialDataBlock, ModbusServerContext, ModbusSlaveContext
from pymodbus.device import ModbusDeviceIdentification
from pymodbus.server import StartAsyncTcpServer
from pymodbus.server.async_io import ModbusConnectedRequestHandler

class Logged(ModbusConnectedRequestHandler):
    def execute(self, request, *addr):
        self.asked = request
        super().execute(request, *addr)

    def send(self, message, *addr, **kwargs):
        asked = self.asked
        address = getattr(asked, "address", getattr(asked, "read_address", None))
        count = getattr(asked, "count", getattr(asked, "read_count", None))
        log = [self.client_address[1], asked.transaction_id, asked.unit_id, asked.function_code & 0x7f, address, count]
        log.append(getattr(message, "exception_code", None))
        print("\t".join("" if one is None else str(one) for one in log), flush=True)
        super().send(message, *addr, **kwargs)

block = lambda: ModbusSequentialDataBlock(0, list(range(200)))
unit = lambda: ModbusSlaveContext(di=block(), co=ModbusSequentialDataBlock(0, [True, False] * 100), hr=block(), ir=block())
identity = ModbusDeviceIdentification(info_name={"VendorName": "Weir", "ProductCode": "W1", "MajorMinorRevision": "1"})
context = ModbusServerContext(slaves={1: unit(), 2: unit()}, single=False)
logging.basicConfig(stream=sys.stderr)
asyncio.run(StartAsyncTcpServer(context, identity, (sys.argv[1], 502), handler=Logged))
