-- The globals of a module with trust. Argument: the functions of Weir.
-- FlowScope's modules name `libmoon` and `log`: these are the parts of them that a module over packets uses.
local weir = ...
local format, concat, type, tostring, tonumber, select = string.format, table.concat, type, tostring, tonumber, select

function print(...)
    local texts = {}
    for i = 1, select("#", ...) do
        texts[i] = tostring((select(i, ...)))
    end
    weir.print_line(concat(texts, "\t"))
end

-- Numbers of 64 bits are passed on exactly: as their digits.
local function plain(value)
    if type(value) ~= "cdata" then
        return value
    end
    local number = tonumber(value)
    if number and number > 2 ^ 53 then
        return (tostring(value):gsub("U?LL$", ""))
    end
    return number
end

local add_row = weir.add_row
function weir.row(row)
    for name, value in pairs(row) do
        row[name] = plain(value)
    end
    add_row(row)
end

local function line(level)
    return function(_, text, ...)
        weir.print_line(level .. format(text, ...))
    end
end

package.preload.libmoon = function()
    return { getTime = weir.now, running = function() return true end }
end
package.preload.log = function()
    return {
        debug = function() end, setLevel = function() end,
        info = line(""), warn = line("warning: "), error = line("error: "),
    }
end
