require_relative "verify"

File.foreach(ARGV[0], chomp: true) do |line|
  file, header, *secrets = line.split("\t")
  puts from_keyhook?(File.binread(file), header, *secrets)
end
