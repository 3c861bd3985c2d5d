require_relative "verify"

File.foreach(ARGV[0], chomp: true) do |line|
  file, header, secret = line.split("\t")
  puts from_keyhook?(File.binread(file), header, secret)
end
