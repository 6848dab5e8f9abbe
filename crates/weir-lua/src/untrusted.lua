-- The environment of a module without trust. Arguments: the functions of Weir, and one that says whether the call was stopped.
-- Returns the environment, and the function that calls a module's functions.
local weir, stopped = ...
local pcall, error, type, tostring, select, concat = pcall, error, type, tostring, select, table.concat
local gsub, rep, sort = string.gsub, string.rep, table.sort

-- A call that was stopped ends in every frame: no `pcall` of the module goes on after it.
local function finish(ok, ...)
    if not ok and stopped() then
        error((...), 0)
    end
    return ok, ...
end

-- The steps of a search with a pattern are not instructions of Lua. They are at most about the length of the text, to the power of the
-- number of repetitions in the pattern, and one more.
local STEPS_MAX = 1e8
local function bounded(search)
    return function(text, pattern, ...)
        local length = #tostring(text) + 1
        local _, repetitions = gsub(tostring(pattern), "[*+?-]", "")
        if length ^ (repetitions + 1) > STEPS_MAX then
            error("the pattern has too many repetitions for a text of this length", 2)
        end
        return search(text, pattern, ...)
    end
end

local strings = string
for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
    strings[name] = bounded(strings[name])
end
strings.dump = nil
strings.rep = function(text, count)
    if #tostring(text) == 0 then
        return ""
    end
    return rep(text, count)
end
table.sort = function(list, less)
    if #list > 100000 then
        error("a list of more than 100000 elements is not sorted", 2)
    end
    return sort(list, less)
end
getmetatable("").__metatable = false

local function print(...)
    local texts = {}
    for i = 1, select("#", ...) do
        texts[i] = tostring((select(i, ...)))
    end
    weir.print_line(concat(texts, "\t"))
end

local environment = {
    assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal, rawget = rawget, rawset = rawset,
    select = select, setmetatable = setmetatable, getmetatable = getmetatable, tonumber = tonumber, tostring = tostring, type = type,
    unpack = unpack, print = print, math = math, string = strings, table = table, bit = bit,
    pcall = function(call, ...)
        return finish(pcall(call, ...))
    end,
    weir = { now = weir.now, row = weir.add_row, args = weir.args, key = weir.key },
}
environment._G = environment

local function done(ok, ...)
    if ok then
        return ...
    end
    local why = ...
    if type(why) == "userdata" then
        why = tostring(why)
    elseif type(why) ~= "string" then
        why = "the error is no text, but of the type " .. type(why)
    end
    error(why, 0)
end

local function guard(call, ...)
    return done(pcall(call, ...))
end

return environment, guard
